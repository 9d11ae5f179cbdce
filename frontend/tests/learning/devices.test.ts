import { expect, test } from 'vitest';
import { listOn, usedShare } from '../../src/lib/learning/devices';
import type { DeviceState, ModelPlace } from '../../src/lib/schema';

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
