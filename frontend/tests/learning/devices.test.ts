import { expect, test } from 'vitest';
import type { DevicesApi } from '../../src/lib/api/learning';
import { Devices, listOn, usedShare } from '../../src/lib/learning/devices.svelte';
import type { DevicesAnswer, DeviceState, ModelPlace } from '../../src/lib/schema';

const place = (model: string, role: ModelPlace['role'], device: string): ModelPlace => ({
  model,
  role,
  process: 'p',
  wanted: device,
  device,
});
const state = (used_bytes: number | null, total_bytes: number | null): DeviceState => ({
  name: 'cuda:0',
  description: '',
  used_bytes,
  total_bytes,
  free_bytes: null,
  cap_bytes: null,
  utilization_percent: null,
  cores: null,
});
const NOTHING: DevicesAnswer = { has_accelerator: false, devices: [], places: [], fallbacks: [] };

test('a device lists the models that it learns and answers with, each once', () => {
  const places = [
    place('chat', 'server', 'cpu'),
    place('chat', 'server', 'cpu'),
    place('many', 'learner', 'cuda:0,cuda:1'),
    place('digits', 'learner', 'cuda:1'),
  ];
  expect(listOn('cpu', places)).toEqual({ learns: [], answers: ['chat'] });
  expect(listOn('cuda:1', places)).toEqual({ learns: ['many', 'digits'], answers: [] });
  expect(listOn('cuda:0', places)).toEqual({ learns: ['many'], answers: [] });
});

test('the share of memory in use is not known without both figures', () => {
  expect(usedShare(state(6, 8))).toBe(0.75);
  expect(usedShare(state(null, 8))).toBeNull();
  expect(usedShare(state(6, null))).toBeNull();
});

test('what lies where is read again until nobody watches, and a failure is shown until it is over', async () => {
  let calls = 0;
  const api: DevicesApi = {
    get: () => (++calls === 2 ? Promise.reject(new Error('down')) : Promise.resolve(NOTHING)),
  };
  const problems: (string | null)[] = [];
  const devices: Devices = new Devices(api, () => {
    problems.push(devices.problem);
    if (calls === 3) devices.stop();
    return Promise.resolve();
  });
  await devices.watch();
  expect(calls).toBe(3);
  expect(problems.map((problem) => problem === null)).toEqual([true, false, true]);
  expect(devices.answer).toEqual(NOTHING);
});
