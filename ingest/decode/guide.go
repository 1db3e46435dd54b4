package decode

// guide is how the members of an object were named in the record before. Records of a
// topic look alike: where a name comes again in its place, one comparison reads it, and
// what was found by the names holds.
type guide struct {
	text []byte  // "name": of each member, one behind the other
	ends []int32 // in text

	// What was found by the names, for others to note; nil after learn.
	rows  *rowSchema
	shape *shape
	slots []slot
}

// maxGuided bounds the members of an object that are remembered.
const maxGuided = 1 << 12

// guided is members with a guide, which it brings up to date.
func (s *scanner) guided(i, depth int, dst []member, g *guide) ([]member, int) {
	if depth > maxDepth {
		return dst, s.fail(i, "nested too deep")
	}
	b, from, before := s.b, int32(0), len(dst)
	for n, to := range g.ends {
		at := i
		if n > 0 {
			if at >= len(b) || b[at] != ',' {
				break
			}
			at++
		}
		text := g.text[from:to]
		end := at + len(text)
		if end > len(b) || string(b[at:end]) != string(text) {
			break
		}
		begin := end
		if begin < len(b) && b[begin] <= ' ' {
			begin = s.space(begin)
		}
		value, next := s.value(begin, depth)
		if next < 0 {
			return dst, next
		}
		dst = append(dst, member{token{int32(at) + 1, int32(end) - 2, kindString, 0}, value})
		i, from = next, to
	}
	known := len(dst)
	dst, i = s.rest(i, depth, known == before, dst)
	if i >= 0 && (known < len(dst) || known-before < len(g.ends)) {
		g.learn(b, dst[before:])
	}
	return dst, i
}

// learn takes the names of an object's members; none where one is escaped, or stands
// apart from its colon.
func (g *guide) learn(b []byte, members []member) {
	g.rows, g.shape, g.slots = nil, nil, g.slots[:0]
	g.text, g.ends = g.text[:0], g.ends[:0]
	if len(members) > maxGuided {
		return
	}
	for i := range members {
		name := &members[i].name
		if name.flags != 0 || b[name.end+1] != ':' {
			g.text, g.ends = g.text[:0], g.ends[:0]
			return
		}
		g.text = append(g.text, b[name.start-1:name.end+2]...)
		g.ends = append(g.ends, int32(len(g.text)))
	}
}

// of reports whether what was noted is of these members: those of the record that was read last.
func (g *guide) of(members []member) bool { return len(g.ends) == len(members) && len(members) > 0 }

// findGuided is find, of an object that was read with a guide.
func (r *rowSchema) findGuided(b []byte, members []member, g *guide) (*shape, error) {
	if g.rows == r && g.of(members) {
		return g.shape, nil
	}
	s, err := r.find(b, members)
	if err == nil {
		g.rows, g.shape = r, s
	}
	return s, err
}

// findGuided is find, of a source block that was read with a guide.
func (s *source) findGuided(b []byte, members []member, g *guide) error {
	if len(g.slots) == len(members) && g.of(members) {
		s.at = [slots]token{}
		for i, at := range g.slots {
			s.at[at] = members[i].value
		}
		s.at[slotNone] = token{}
		return nil
	}
	if err := s.find(b, members); err != nil {
		return err
	}
	g.slots = g.slots[:0]
	for i := range members {
		g.slots = append(g.slots, slotOf(view(b[members[i].name.start:members[i].name.end])))
	}
	return nil
}
