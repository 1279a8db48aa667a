package exampleserver

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shop is what a server remembers: its orders.
type shop struct {
	mu     sync.Mutex
	orders []Order
}

func newShop() *shop { return &shop{} }

func addShop(s *mcp.Server, shop *shop) {
	mcp.AddTool(s, &mcp.Tool{Name: "normalize_customer", Description: "Brings a customer's data into the form that orders need."}, normalize)
	mcp.AddTool(s, &mcp.Tool{Name: "create_order", Description: "Creates an order for a normalized customer."}, shop.create)
	mcp.AddTool(s, &mcp.Tool{Name: "get_order", Description: "Returns an order."}, shop.get)
}

type customerInput struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Customer is the structured result of normalize_customer.
type Customer struct {
	CustomerID string `json:"customer_id"`
	Name       string `json:"name"`
	Email      string `json:"email"`
}

func normalize(_ context.Context, _ *mcp.CallToolRequest, in customerInput) (*mcp.CallToolResult, Customer, error) {
	email := strings.ToLower(strings.TrimSpace(in.Email))
	user, _, ok := strings.Cut(email, "@")
	if !ok || user == "" {
		return nil, Customer{}, fmt.Errorf("%q is no e-mail address", in.Email)
	}
	return nil, Customer{CustomerID: "cust-" + user, Name: strings.Join(strings.Fields(in.Name), " "), Email: email}, nil
}

type orderInput struct {
	CustomerID string `json:"customer_id"`
	Item       string `json:"item"`
	Quantity   int    `json:"quantity"`
}

// Order is the structured result of create_order and get_order.
type Order struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Item       string `json:"item"`
	Quantity   int    `json:"quantity"`
	Status     string `json:"status"`
}

func (s *shop) create(_ context.Context, _ *mcp.CallToolRequest, in orderInput) (*mcp.CallToolResult, Order, error) {
	switch {
	case !strings.HasPrefix(in.CustomerID, "cust-"):
		return nil, Order{}, fmt.Errorf("%q is no customer: call normalize_customer first", in.CustomerID)
	case in.Quantity < 1:
		return nil, Order{}, fmt.Errorf("quantity is %d: it must be at least 1", in.Quantity)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Order{OrderID: fmt.Sprintf("order-%d", len(s.orders)+1), CustomerID: in.CustomerID, Item: in.Item, Quantity: in.Quantity, Status: "created"}
	s.orders = append(s.orders, o)
	return nil, o, nil
}

type orderID struct {
	OrderID string `json:"order_id"`
}

func (s *shop) get(_ context.Context, _ *mcp.CallToolRequest, in orderID) (*mcp.CallToolResult, Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.OrderID == in.OrderID {
			return nil, o, nil
		}
	}
	return nil, Order{}, fmt.Errorf("there is no order %q on this connection", in.OrderID)
}
