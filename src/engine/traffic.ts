import type { Counters } from '../limits/counters.ts'
import type { KeptCalls } from '../resources/idempotency/calls.ts'
import type { EventLogs } from '../resources/responses/event-log.ts'
import type { Health } from './health.ts'
import type { Admission } from './traffic/admission.ts'
import type { Approvals } from './traffic/approvals.ts'
import type { LargeAnswers } from './traffic/large-answers.ts'
import type { ReadDocuments } from './traffic/read-documents.ts'
import type { ReadOns } from './traffic/read-ons.ts'
import type { ResponseCache } from './traffic/response-cache.ts'
import type { RetryBudget } from './traffic/retry-budget.ts'
import type { RunningCalls } from './traffic/running-calls.ts'
import type { Sessions } from './traffic/sessions.ts'

/** The running calls, and what is known of the endpoints that they use. */
export interface Traffic {
  /** Decides whether another call fits beside those that run. */
  admission: Admission
  calls: RunningCalls
  /** Answers that are read on after their clients have left. */
  readOns: ReadOns
  /** Bounds how many retries may be in vain. */
  retryBudget: RetryBudget
  /** Where answers are read that take much memory. */
  largeAnswers: LargeAnswers
  /** The health of endpoints. */
  health: Health
  /** The endpoints of sessions. */
  sessions: Sessions
  /** What clients were asked to approve. */
  approvals: Approvals
  /** Answers that callers want to get again. */
  responseCache: ResponseCache
  /** What documents of conversations say. */
  readDocuments: ReadDocuments
  /** Calls under clients’ keys, and their answers. */
  keptCalls: KeptCalls
  /** The responses that are made in the background, by their ids. */
  background: Map<string, AbortController>
  /** The events of those that are streamed. */
  eventLogs: EventLogs
  /** Limits how often calls may be made. */
  counters: Counters
}
