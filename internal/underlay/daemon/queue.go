package daemon

import "time"

// run is consecutive segments of one packet that have the same fate.
type run struct {
	due      time.Duration // on the daemon's clock
	order    uint64        // of arrival, to break ties
	packet   *packet
	pair     *pair
	from, to int // segments [from, to)
	bit      int // to be flipped in the only segment; -1 for none
}

func (r *run) before(s *run) bool {
	return r.due < s.due || r.due == s.due && r.order < s.order
}

// queue holds runs that wait, the next one due first. It is a binary heap in
// one slice: container/heap would allocate for each run.
type queue struct {
	runs  []run
	count uint64 // of all runs so far
}

func (q *queue) push(r run) {
	r.order = q.count
	q.count++
	q.runs = append(q.runs, r)
	i := len(q.runs) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q.runs[i].before(&q.runs[parent]) {
			break
		}
		q.runs[i], q.runs[parent] = q.runs[parent], q.runs[i]
		i = parent
	}
}

// next returns the run that is due first, or nil. It is valid until the queue
// changes.
func (q *queue) next() *run {
	if len(q.runs) == 0 {
		return nil
	}
	return &q.runs[0]
}

func (q *queue) pop() run {
	first := q.runs[0]
	end := len(q.runs) - 1
	q.runs[0] = q.runs[end]
	q.runs[end] = run{}
	q.runs = q.runs[:end]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < end; child++ {
			if q.runs[child].before(&q.runs[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		q.runs[i], q.runs[least] = q.runs[least], q.runs[i]
		i = least
	}
}
