package trace

// role is what a projection does with an event.
type role uint8

const (
	roleUnknown role = iota
	roleLifecycle
	roleProcessStarted
	roleProcessExited
	roleStderr
	roleTransport
	roleInitialized
	roleRequest
	roleResponse
	roleErrorResponse
	roleNotification
	roleCancel
	roleMalformed
	roleDenied
	roleFiltered
	roleAgentFrame
	roleHTTP
	roleCallFailed
	roleFinding
	roleDiagnostic
	roleMessage
	roleReasoning
	roleUsage
	roleToolRequested
	roleToolResult
	roleInteraction
	roleElicitation
	roleWorkspace
	roleArtifact
	roleProvider
)

var roles = map[Kind]role{
	KindExecutionCreated:      roleLifecycle,
	KindExecutionStateChanged: roleLifecycle,
	KindExecutionFinished:     roleLifecycle,
	KindHarnessSelection:      roleLifecycle,
	KindHarnessResolved:       roleLifecycle,
	KindSessionCreated:        roleLifecycle,
	KindSessionStateChanged:   roleLifecycle,
	KindTurnCreated:           roleLifecycle,
	KindTurnStateChanged:      roleLifecycle,
	KindCleanupStarted:        roleLifecycle,
	KindCleanupFinished:       roleLifecycle,
	KindProcessStarted:        roleProcessStarted,
	KindProcessExited:         roleProcessExited,
	KindProcessStderr:         roleStderr,
	KindTransportConnected:    roleTransport,
	KindTransportDisconnected: roleTransport,
	KindMCPInitialized:        roleInitialized,
	KindMCPRequest:            roleRequest,
	KindMCPResponse:           roleResponse,
	KindMCPError:              roleErrorResponse,
	KindMCPNotification:       roleNotification,
	KindMCPProgress:           roleNotification,
	KindMCPCancelRequested:    roleCancel,
	KindMCPCancelCompleted:    roleNotification,
	KindMCPPolicyDenied:       roleDenied,
	KindMCPFiltered:           roleFiltered,
	KindMCPMalformed:          roleMalformed,
	KindHTTPExchange:          roleHTTP,
	KindMCPCallFailed:         roleCallFailed,
	KindFinding:               roleFinding,
	KindDiagnostic:            roleDiagnostic,
	KindAgentFrame:            roleAgentFrame,
	KindAgentMessage:          roleMessage,
	KindAssistantContent:      roleMessage,
	KindReasoning:             roleReasoning,
	KindUsage:                 roleUsage,
	KindToolCallRequested:     roleToolRequested,
	KindToolResultReceived:    roleToolResult,
	KindPermissionRequest:     roleInteraction,
	KindPermissionResponse:    roleInteraction,
	KindSamplingRequest:       roleInteraction,
	KindSamplingResponse:      roleInteraction,
	KindFilesystem:            roleInteraction,
	KindTerminal:              roleInteraction,
	KindElicitationRequest:    roleElicitation,
	KindElicitationResponse:   roleElicitation,
	KindWorkspaceChanged:      roleWorkspace,
	KindArtifactRecorded:      roleArtifact,
	KindProviderEvent:         roleProvider,
}

// kindCode is an EntryKind in one byte. The codes are in the order of the words, which is the order of entries that start
// with the same event.
type kindCode uint8

const (
	codeArtifact kindCode = iota
	codeDiagnostic
	codeElicitation
	codeFinding
	codeInitialization
	codeInteraction
	codeLifecycle
	codeMessage
	codeProcess
	codeProtocol
	codeProvider
	codeRawMessage
	codeReasoning
	codeToolCall
	codeTransport
	codeUsage
	codeWorkspace
	codeCount
)

var entryKinds = [codeCount]EntryKind{
	EntryArtifact, EntryDiagnostic, EntryElicitation, EntryFinding, EntryInitialization, EntryInteraction, EntryLifecycle, EntryMessage,
	EntryProcess, EntryProtocol, EntryProvider, EntryRawMessage, EntryReasoning, EntryToolCall, EntryTransport, EntryUsage, EntryWorkspace,
}

// verdict is how a call, or anything else that can fail, ended, in one byte.
type verdict uint8

const (
	verdictIncomplete verdict = iota
	verdictSuccess
	verdictToolError
	verdictProtocolError
	verdictTransportError
	verdictTimedOut
	verdictCancelled
	verdictFailed
	verdictInterrupted
	verdictUnavailable // it ended, but the evidence that says how is lost
)

var verdictStatus = [...]Status{
	StatusIncomplete, StatusCompleted, StatusToolError, StatusProtocolError, StatusTransportError, StatusTimedOut, StatusCancelled,
	StatusFailed, StatusInterrupted, StatusUnavailable,
}

var verdictToolStatus = [...]ToolCallStatus{
	ToolIncomplete, ToolSuccess, ToolError, ToolProtocolError, ToolTransportError, ToolTimedOut, ToolCancelled,
	ToolError, ToolIncomplete, ToolIncomplete,
}

func (v verdict) status() Status { return verdictStatus[v] }

func (v verdict) toolStatus() ToolCallStatus { return verdictToolStatus[v] }

// verdictOf reads a status word; ok is false for a word that is none.
func verdictOf(word string) (verdict, bool) {
	switch ToolCallStatus(word) {
	case ToolSuccess, ToolCompleted:
		return verdictSuccess, true
	}
	for i, s := range verdictStatus {
		if string(s) == word {
			return verdict(i), true
		}
	}
	return verdictIncomplete, false
}

// operations are the methods that may pause for input.
var operations = map[string]OperationKind{
	"tools/call":     OperationTool,
	"prompts/get":    OperationPrompt,
	"resources/read": OperationResource,
}
