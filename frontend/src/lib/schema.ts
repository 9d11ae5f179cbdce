/* What crosses the wire, by the names the page uses: one line each over the types generated from the OpenAPI document. */
import type { components } from './api.gen';

type Schemas = components['schemas'];

export type ModelCard = Schemas['ModelCard'];
export type Candidate = Schemas['RankedReply'];
export type Reply = Schemas['ReplyRef'];
export type RankerPrediction = Schemas['RankerPrediction'];
export type Guess = Schemas['ClassifierPrediction'];
export type LabelShown = Schemas['LabelShown'];
export type Curve = Schemas['CurveAnswer'];
export type CurvePoint = Schemas['CurvePoint'];
export type PredictRequest<Instance = string> = Schemas['PredictRequest'] & { instances: Instance[]; user: string };
export type PredictResponse<Prediction = RankerPrediction> = Omit<Schemas['PredictAnswer'], 'predictions'> & {
  predictions: Prediction[];
};
type About = { [Name in 'id' | 'prediction_id' | 'user']: string };
export type Thumb = { reward: 0 | 1; reason?: string; comment?: string };
export type Said = Thumb | { correction: string } | { label: string };
export type FeedbackRequest = About & Said;
export type Receipt = Schemas['Receipt'];
export type FeedbackStatus = Receipt['status'];
export type FeedbackFate = Schemas['FeedbackFate'];
export type ConversationShown = Schemas['ConversationShown'];
export type ConversationKept = Schemas['ConversationAnswer'];
export type TurnKept = Schemas['TurnShown'];
export type SaidKept = Schemas['SaidAbout'];
export type WhyAnswer = Schemas['WhyAnswer'];
export type Witness = Schemas['Witness'];
export type Ground = Schemas['Ground'];
export type Version = Pick<
  Schemas['VersionShown'],
  'version' | 'parent' | 'learned_until' | 'created_at' | 'live' | 'durable' | 'metrics' | 'labels'
>;
export type VersionLabel = Schemas['VersionLabel'];
export type Frozen = Schemas['FrozenShown'];
export type Quarantine = Schemas['QuarantineShown'];
export type Outcome = Schemas['EndQuarantine']['outcome'];
export type RefusedCandidate = Schemas['RefusedCandidate'];
export type Refused = Schemas['RefusedShown'];
export type Drift = Schemas['DriftShown'];
export type ReplyListed = Schemas['ReplyListed'];
export type ReplyShown = Schemas['ReplyShown'];
export type ReplyDetails = Schemas['ReplyDetails'];
export type NewReply = Pick<Schemas['NewReply'], 'text' | 'examples'>;
export type EditReply = Partial<Schemas['EditReply']>;
export type OpenCluster = Schemas['OpenCluster'];
export type OpenQuestion = Schemas['OpenQuestion'];
export type ImportAnswer = Schemas['ImportAnswer'];
export type ImportedLine = Schemas['ImportedLine'];
export type RolledBack = Schemas['RollbackAnswer'];
export type ReportState = Schemas['ReportState'];
export type Progress = Schemas['Progress'];
export type Replay = Schemas['ReplayShown'];
export type Replays = Schemas['ReplaysAnswer'];

/** Told by server-sent events and /readyz, which the OpenAPI document does not describe. */
export interface Learner {
  state: 'running' | 'restarting' | 'stopped' | 'external';
  reason?: string | null;
}

/** What became of the last attempt to tune the text encoder; of an attempt that never came to a judgement, little. */
export interface Adaptation {
  at: string;
  judged?: number;
  before?: number;
  after?: number;
  chance?: number;
  better?: boolean;
  version: number | null;
  encoder: string;
}

export interface ModelStatus {
  learned_until: number;
  head: number;
  /** How soon feedback was live, since the server started; null while none was. */
  freshness_ms: { last: number | null; p50: number | null; p95: number | null };
  /** "": the one that was never tuned; absent where the model reads no texts. */
  encoder?: string;
  adaptation?: Adaptation | null;
}
