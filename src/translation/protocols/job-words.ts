import { getOwn, readString } from '../../base/json.ts'
import type { JobState } from './protocol.ts'

/** How a job is doing, by the word that a provider has for it; `unknown` for any other word. */
type JobWord = JobState['status'] | 'unknown'

const WORDS: Record<Exclude<JobWord, 'unknown'>, string> = {
  pending:
    'pending queued in_queue enqueued submitted created accepted received scheduled waiting ' +
    'throttled starting initializing not_started preparing',
  in_progress:
    'in_progress processing running started working active generating rendering dreaming ' +
    'uploading finalizing',
  completed: 'completed complete succeeded success successful done finished ready',
  failed: 'failed failure error errored rejected expired timeout timed_out moderated',
  cancelled: 'cancelled canceled aborted deleted revoked',
}

// Providers write the same word in several ways: IN_PROGRESS, inProgress, "in progress".
const simplify = (word: string): string => word.toLowerCase().replace(/[^a-z]/g, '')

const BY_WORD = Object.fromEntries(
  Object.entries(WORDS).flatMap(([status, words]) =>
    words.split(' ').map(word => [simplify(word), status as JobWord]),
  ),
)

/**
 * Reads how a job is doing. A word that is not known to mean that it goes on ends the wait: what
 * there is by then is the result. Undefined for what is no word.
 */
export function readJobWord(value: unknown): JobWord | undefined {
  const word = simplify(readString(value) ?? '')
  return word === '' ? undefined : (getOwn(BY_WORD, word) ?? 'unknown')
}

/** Tells whether a word says that the work goes on. */
export function goesOn(value: unknown): boolean {
  const word = readJobWord(value)
  return word === 'pending' || word === 'in_progress'
}
