/* The page's names for the types generated from the OpenAPI document. */
import type { components } from './api.gen';

type Schemas = components['schemas'];

export type ModelCard = Schemas['ModelCard'];
export type Candidate = Schemas['RankedReply'];
export type Reply = Schemas['ReplyRef'];
export type RankerPrediction = Schemas['RankerPrediction'];
export type Guess = Schemas['ClassifierPrediction'];
export type ClassInfo = Schemas['ClassState'];
export type TaughtClass = Omit<Schemas['TaughtClass'], 'examples'> & { examples: TaughtExample[] };
export type RejectedExample = Omit<Schemas['RejectedExample'], 'input'> & {
  input: number[] | null;
};
/** What a user taught, and what of it a curator rejected. */
export type Taught = { classes: TaughtClass[]; rejected: RejectedExample[] };
/** The status `waiting` is of a drawing that waits in this browser for the service. */
export type TaughtExample = Omit<Schemas['TaughtExample'], 'input' | 'status'> & {
  input: number[] | null;
  status: Schemas['TaughtExample']['status'] | 'waiting';
};
export type Curve = Schemas['CurveAnswer'];
export type CurvePoint = Schemas['CurvePoint'];
export type PredictRequest<Instance = string> = Schemas['PredictRequest'] & {
  instances: Instance[];
};
export type PredictResponse<Prediction = RankerPrediction> = Omit<Schemas['PredictAnswer'], 'predictions'> & {
  predictions: Prediction[];
  /** Whether this device has answered, without the service. */
  isLocal?: boolean;
};
type FeedbackSubject = { [Name in 'id' | 'prediction_id']: string };
/** signal: of an answer of a language model that was better, or worse, than another. */
export type Thumb = { reward: 0 | 1; reason?: string; comment?: string; signal?: 'preference' };
/** How far a correction reaches. */
export type CorrectionScope = NonNullable<Schemas['FeedbackItem']['scope']>;
export type Correction = { correction: string; scope?: CorrectionScope };
export type FeedbackContent = Thumb | Correction | { label: string };
export type FeedbackRequest = FeedbackSubject & FeedbackContent;
/** Feedback as it is sent. */
export type FeedbackItem = Partial<Schemas['FeedbackItem']>;
export type Receipt = Schemas['Receipt'];
export type FeedbackProgress = Schemas['FeedbackOutcome'];
/** Whether this device has given all of its answers, so that only this browser keeps it. */
type KeptHere = { isLocal?: boolean };
export type ConversationSummary = Schemas['ConversationSummary'] & KeptHere;
export type ConversationPage = { conversations: ConversationSummary[]; next: string | null };
export type ConversationChange = Pick<Partial<Schemas['ConversationSummary']>, 'title' | 'pinned'>;
export type SharedConversation = Schemas['SharedConversation'];
export type StoredConversation = Omit<Schemas['ConversationAnswer'], 'said'> & KeptHere & { said: StoredTurn[] };
/** isLocal: whether this device has answered, without the service. */
export type StoredTurn = Schemas['Turn'] & { isLocal?: boolean };
export type StoredFeedback = Schemas['TurnFeedback'];
export type ExplanationAnswer = Schemas['Explanation'];
export type Neighbor = Schemas['RatedQuestion'];
export type ScoreBreakdown = Schemas['ReplyScore'];
export type Version = Pick<
  Schemas['VersionDetails'],
  'version' | 'parent' | 'learned_until' | 'created_at' | 'live' | 'durable' | 'metrics' | 'labels'
>;
export type VersionLabel = Schemas['VersionLabel'];
/** Why the service did something: the page words it from the code and the figures. */
export type Cause = { code: string; figures: Record<string, string | number> };
export type Frozen = Schemas['FreezeState'];
export type Quarantine = Schemas['QuarantineDetails'];
export type QuarantineOutcome = Schemas['EndQuarantine']['outcome'];
export type RejectedSnapshot = Schemas['RejectedSnapshot'];
export type Refusals = Schemas['RefusedAnswer'];
export type UsageAnswer = Schemas['UsageAnswer'];
export type UsageSpan = Schemas['UsageSpan'];
export type UsageUnit = UsageAnswer['by'];
export type TopQuestion = Schemas['TopQuestion'];
export type TopQuestions = Schemas['TopQuestionsAnswer'];
export type AlertsAnswer = Schemas['AlertsAnswer'];
export type SentAlert = Schemas['SentAlert'];
export type TestedEndpoint = Schemas['TestedEndpoint'];
export type Drift = Schemas['DriftAlarm'];
export type DriftChange = Schemas['DriftChange'];
export type Health = Schemas['HealthAnswer'];
export type HealthReason = Schemas['HealthReason'];
export type VersionPage = Pick<
  Schemas['VersionsAnswer'],
  'version_count' | 'next_before' | 'live_version' | 'labels' | 'frozen' | 'refused'
> & { versions: Version[] };
export type VersionChanges = Schemas['VersionChangesAnswer'];
export type ChangedAnswer = Schemas['ChangedAnswer'];
export type ReplySummary = Schemas['ReplySummary'];
export type RepliesAnswer = Schemas['RepliesAnswer'];
export type ReplyCounts = Schemas['ReplyCounts'];
export type SavedReply = Schemas['ReplyState'];
export type ReplyDetails = Schemas['ReplyDetails'];
export type NewReply = Pick<Schemas['NewReplyRequest'], 'text' | 'examples'>;
export type EditReply = Partial<Schemas['EditReply']>;
export type OpenCluster = Schemas['UnansweredCluster'];
export type OpenQuestion = Schemas['UnansweredQuestion'];
export type ImportAnswer = Schemas['ImportAnswer'];
export type ImportedLine = Schemas['ImportedLine'];
export type LineProblem = Schemas['LineProblem'];
export type RolledBack = Schemas['RollbackAnswer'];
export type InboxAnswer = Schemas['InboxAnswer'];
export type InboxGroup = Schemas['InboxGroup'];
export type InboxItem = Schemas['InboxItem'];
export type InboxDecision = Schemas['InboxDecision'];
export type InboxCount = Schemas['InboxCount'];
export type DecideRequest = Partial<Schemas['DecideRequest']> & Pick<Schemas['DecideRequest'], 'ids' | 'action'>;
export type InboxAction = DecideRequest['action'];
export type DecideAnswer = Schemas['DecideAnswer'];
export type SessionAnswer = Schemas['SessionAnswer'];
export type Scope = SessionAnswer['scopes'][number];
export type ReportState = Schemas['ReportState'];
export type ReportProgress = Schemas['ReportProgress'];
export type ReportEntry = Schemas['ReportEntry'];
export type Finding = Schemas['Finding'];
export type Replay = Schemas['ReplayStatus'];
export type RecognisedColumn = Schemas['RecognisedColumn'];
export type RecognisedColumns = Schemas['ColumnsAnswer'];
export type Replays = Schemas['ReplaysAnswer'];

/** In server-sent events and /readyz, which the OpenAPI document does not describe. */
export interface Learner {
  state: 'running' | 'restarting' | 'stopped' | 'external';
  reason?: string | null;
  cause?: Cause | null;
}

/** The result of the last tuning of the text encoder; without figures if it was not evaluated. */
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
  /** Freshness since the server started; null without feedback. */
  freshness_ms: { last: number | null; p50: number | null; p95: number | null };
  /** "" for the pre-trained encoder; absent for models without texts. */
  encoder?: string;
  adaptation?: Adaptation | null;
}
export type ClusterAnswer = Schemas['ClusterAnswer'];
export type ClusterModel = Schemas['ClusterModel'];
export type ReplicaModel = Schemas['ReplicaModel'];
export type ReplicaState = Schemas['ReplicaState'];
export type DevicesAnswer = Schemas['DevicesAnswer'];
export type DeviceState = Schemas['DeviceState'];
export type ModelPlace = Schemas['ModelPlace'];
export type EncoderManifest = Schemas['EncoderManifest'];
/** An answer of a language model, as it is kept. */
export type StoredGenerated = Schemas['GeneratedAnswer'];
export type StoredGeneratedAnswers = Schemas['GeneratedAnswers'];
export type RouteReasons = Schemas['RouteReasons'];
/** A figure with its interval of 95 %. */
export type Estimate = Schemas['FigureInterval'];
export type RouterReport = Schemas['RouterReport'];
export type ReportedRoute = Schemas['ReportedRoute'];
export type ReportedTopic = Schemas['ReportedTopic'];
export type BudgetPreview = Schemas['BudgetPreview'];
export type BudgetWorth = Schemas['BudgetWorth'];
export type RouteChange = Schemas['RouteChange'];
