/* The text encoder of a model in this browser: its files, its worker, and what it has read. */

import { runtime } from 'virtual:onnx-runtime';
import { encoderApi } from '../api/offline';
import { BASE_PATH } from '../base';
import type { Offline } from '../offline/offline.svelte';
import { inTurn, openTabs } from '../offline/tabs';
import { pause } from '../ui/pause';
import { BetterAnswers } from './better_answers.svelte';
import { EncoderFiles } from './files';
import { EncoderWorker } from './worker_client';
import script from './encoder_worker.ts?worker&url';

const NAME = `online-encoder-${BASE_PATH.slice(1)}`; // caches belong to the origin
const FEATURES = 'features'; // of the texts that it has read
const runtimeAddress = new URL(BASE_PATH + runtime.name, location.href).href;

/** null where the browser keeps no files, such as without https or in a sandbox, where it throws. */
export function openFiles(): EncoderFiles | null {
  try {
    return 'caches' in globalThis ? new EncoderFiles(caches, NAME, encoderApi.open) : null;
  } catch {
    return null;
  }
}

export async function openBetterAnswers(files: EncoderFiles, model: string, offline: Offline): Promise<BetterAnswers> {
  const address = new URL(encoderApi.address(model), location.href).href;
  const kept = { cache: files.name, manifest: address, runtime: runtimeAddress };
  const better = new BetterAnswers({
    files,
    address,
    describe: () => encoderApi.describe(model),
    own: [
      { address: runtimeAddress, bytes: runtime.bytes, sha256: runtime.sha256 },
      { address: new URL(script, location.href).href, bytes: 0, sha256: null },
    ],
    start: (signal) => EncoderWorker.start(new Worker(script, { type: 'module' }), kept, signal),
    isLost: () => offline.connection.lost,
    exclusively: (work, signal) => inTurn(NAME, work, signal),
    tabs: openTabs(NAME),
    pause,
    recall: () => offline.recall(FEATURES, model),
    remember: (features) => offline.remember(FEATURES, model, features),
  });
  offline.connection.onRecovery(better.resume);
  await better.load();
  return better;
}
