/* The requests of the cluster page. */

import { call } from '../http';
import type { ClusterAnswer } from '../schema';
import { V1 } from './model';

export const clusterApi = { get: () => call<ClusterAnswer>('GET', `${V1}/cluster`) };
