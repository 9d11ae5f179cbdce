/* node replay_node.js < scenario.json > result.json */

import { readFileSync } from 'node:fs';
import { replay } from './replay.js';

console.log(JSON.stringify(await replay(JSON.parse(readFileSync(0, 'utf8')))));
