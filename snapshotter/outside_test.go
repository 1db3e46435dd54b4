package snapshotter

import (
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// A load from outside knows a server and no connector: its floor is of the line of the
// first connector with that server, whether reads of the connector came before or not.
func TestLoadedFromOutside(t *testing.T) {
	for name, readFirst := range map[string]bool{"changes first": false, "reads first": true} {
		t.Run(name, func(t *testing.T) {
			s := &State{}
			s.LoadedFromOutside(7, change.Position{File: 3, Pos: 500}, 1000)
			p := s.AddPartition(change.PartitionID{Topic: "t"}, 0)
			if readFirst {
				e := &Event{Kind: FullRead, Server: change.Server{Name: "app"}, HasPosition: true, Position: change.Position{File: 3, Pos: 200}}
				s.line(p, s.server(p, e))
			}
			at := func(server change.Server, pos, time int64) bool {
				e := &Event{Kind: RowChange, Server: server}
				line := s.line(p, s.server(p, e))
				return s.AboveFloors(Meta{Partition: p.Number, Line: line.Number, HasPosition: true, Position: change.Position{File: 3, Pos: pos}, Rank: RankChange, Time: time})
			}
			app := change.Server{Name: "app", ID: 7}
			for _, tt := range []struct {
				what      string
				server    change.Server
				pos, time int64
				newer     bool
			}{
				{"before the load", app, 499, 2000, false},
				{"at the load", app, 500, 2000, true},
				{"behind the load", app, 501, 2000, true},
				{"of another server, later", change.Server{Name: "app", ID: 8}, 1, 1001, true},
				{"of another server, before", change.Server{Name: "app", ID: 8}, 900, 999, false},
			} {
				if got := at(tt.server, tt.pos, tt.time); got != tt.newer {
					t.Errorf("%s: newer is %t, want %t", tt.what, got, tt.newer)
				}
			}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}
