package trace

// Timeline returns every entry, in the order of their first events.
func (v View) Timeline() List[Entry] {
	d, sel := v.reader(false), v.selected()
	return List[Entry]{sel.len(), func(i int) Entry { return d.entry(sel.record(i)) }}
}

// Messages returns the messages of the conversation.
func (v View) Messages() List[MessageEntry] { return list[MessageEntry](v, codeMessage) }

// Reasoning returns the model's reasoning, as far as its provider shows it.
func (v View) Reasoning() List[ReasoningEntry] { return list[ReasoningEntry](v, codeReasoning) }

// ToolCalls returns the logical tool calls, m3's own among them (see [Base.Own]).
func (v View) ToolCalls() List[ToolCallEntry] { return list[ToolCallEntry](v, codeToolCall) }

// Protocol returns the exchanges that are no tool calls, and the notifications.
func (v View) Protocol() List[ProtocolEntry] { return list[ProtocolEntry](v, codeProtocol) }

// Transports returns the connections opened and closed.
func (v View) Transports() List[TransportEntry] { return list[TransportEntry](v, codeTransport) }

// Initializations returns what each server said of itself.
func (v View) Initializations() List[InitializationEntry] {
	return list[InitializationEntry](v, codeInitialization)
}

// Interactions returns the permission, sampling, filesystem and terminal exchanges of an agent.
func (v View) Interactions() List[InteractionEntry] {
	return list[InteractionEntry](v, codeInteraction)
}

// Elicitations returns every keyed request for input with its answer.
func (v View) Elicitations() List[ElicitationEntry] {
	return list[ElicitationEntry](v, codeElicitation)
}

// Processes returns the processes that m3 started.
func (v View) Processes() List[ProcessEntry] { return list[ProcessEntry](v, codeProcess) }

// Diagnostics returns m3's own notes, and why calls ended without an answer.
func (v View) Diagnostics() List[DiagnosticEntry] { return list[DiagnosticEntry](v, codeDiagnostic) }

// RawMessages returns every frame and stderr line.
func (v View) RawMessages() List[RawMessageEntry] { return list[RawMessageEntry](v, codeRawMessage) }

// Findings returns the defects and oddities seen on the wire.
func (v View) Findings() List[FindingEntry] { return list[FindingEntry](v, codeFinding) }

// Lifecycle returns the steps in the life of the execution, its sessions and turns.
func (v View) Lifecycle() List[LifecycleEntry] { return list[LifecycleEntry](v, codeLifecycle) }

// Usage returns every usage report; [Summary.Usage] is the latest.
func (v View) Usage() List[UsageEntry] { return list[UsageEntry](v, codeUsage) }

// Workspace returns the changes of an agent's workspace.
func (v View) Workspace() List[WorkspaceEntry] { return list[WorkspaceEntry](v, codeWorkspace) }

// Artifacts returns the files kept with the execution.
func (v View) Artifacts() List[ArtifactEntry] { return list[ArtifactEntry](v, codeArtifact) }

// Provider returns the traffic between an agent and its model.
func (v View) Provider() List[ProviderEntry] { return list[ProviderEntry](v, codeProvider) }

// list gives the entries of one kind by value.
func list[T any, P interface {
	*T
	Entry
}](v View, k kindCode) List[T] {
	d, sel := v.reader(false), v.selected()
	return List[T]{sel.kindLen(k), func(i int) T {
		return *d.entry(sel.kindRecord(k, i)).(P)
	}}
}

// Entry finds an entry of the view by its id.
func (v View) Entry(id string) (Entry, bool) {
	n, ok := v.index().find(id)
	if !ok || !v.selected().has(n) {
		return nil, false
	}
	return v.reader(false).entry(n), true
}

// emptyIndex stands behind the zero View.
var emptyIndex = &viewIndex{t: New("", NewArena()), kind: "direct"}

func newView(ix *viewIndex) View { return View{ix: ix, filter: ix.visible} }

func (v View) index() *viewIndex {
	if v.ix == nil {
		return emptyIndex
	}
	return v.ix
}

func (v View) reader(kept bool) reader { return reader{v.index(), kept} }
