/* What crosses the wire, by the names the page uses: one line each over the types generated from the OpenAPI document. */
import type { components } from './api.gen';

type Schemas = components['schemas'];

export type Candidate = Schemas['RankedReply'];
export type Reply = Schemas['ReplyRef'];
export type Prediction = Schemas['RankerPrediction'];
export type PredictRequest = Schemas['PredictRequest'] & { instances: string[]; user: string };
export type PredictResponse = Omit<Schemas['PredictAnswer'], 'predictions'> & { predictions: Prediction[] };
type About = { [Name in 'id' | 'prediction_id' | 'user']: string };
export type FeedbackRequest = About & ({ reward: 0 | 1 } | { correction: string });
export type Receipt = Schemas['Receipt'];
export type FeedbackStatus = Receipt['status'];
export type FeedbackFate = Schemas['FeedbackFate'];
export type Version = Pick<Schemas['VersionShown'], 'version' | 'parent' | 'learned_until' | 'created_at' | 'live'>;
export type RolledBack = Schemas['RollbackAnswer'];

/** Told by server-sent events and /readyz, which the OpenAPI document does not describe. */
export interface Learner {
  state: 'running' | 'restarting' | 'stopped' | 'external';
  reason?: string | null;
}

export interface ModelCard {
  id: string;
  kind: string;
}
