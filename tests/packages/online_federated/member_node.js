/* node member_node.js: a line with the description of the device, then one line for each round; each is answered by a line. */

import { createInterface } from 'node:readline';
import { join } from './member.js';

let advance = null;
for await (const line of createInterface({ input: process.stdin })) {
  if (advance) console.log(await advance());
  else {
    advance = await join(JSON.parse(line));
    console.log('joined');
  }
}
