import type { ErrorType } from '../../base/errors.ts'
import type { Region } from '../../language/call.ts'
import type { StepCharge } from '../../limits/ledger.ts'
import type { OutboxMessage, WrittenMessages } from '../outbox.ts'
import type { StoredListQuery } from './filter.ts'

/**
 * One attempt at one endpoint, as the record has it. Latency in milliseconds; a null status means
 * that no answer came.
 */
export interface ProviderResponse {
  provider_name: string
  model_permaslug: string
  endpoint_id: string
  is_byok: boolean
  latency: number
  status: number | null
  /** The provider's own id of the request; null if it sent none. */
  request_id: string | null
  /** That a provider has taken the prompt, and has not failed by itself: it is paid. Absent if not. */
  taken?: true
  /** Why it failed, in the provider's own words if it had any; null if it answered. */
  error: AttemptError | null
  /** The parameters and tools that were left out, as the endpoint has none of them. */
  ignored?: string[]
}

/** Why an attempt failed: our type for it, and what the provider says. */
interface AttemptError {
  type: ErrorType
  code: string | null
  message: string | null
}

/**
 * What one content filter found in a call or in its answer: how often, and what was done. Never the
 * matched text.
 */
export interface Finding {
  guardrail_id: string
  /** The builtin's slug, or the label of the pattern; `pattern` where it has none. */
  filter: string
  action: 'block' | 'redact' | 'flag'
  where: 'input' | 'output'
  count: number
}

/**
 * One turn of a model, or one use of a tool of the gateway, within a call that had several. Money in
 * nano-dollars, times in milliseconds.
 */
export interface GenerationStep {
  type: 'model' | 'tool'
  /** The model, or the tool as the client named it. */
  name: string
  /** The function of the tool that the model called. */
  function: string | null
  /** How many uses of tools it is inside; absent for 0. */
  depth?: number
  provider_name: string | null
  native_tokens_prompt: number
  native_tokens_completion: number
  /** Null if the model has no known price. */
  cost: bigint | null
  latency: number
  finish_reason: string | null
  /** Whether it failed, and the type of the error if there was one. */
  is_error: boolean
  error_type: string | null
  /** At the last one: the bound that left nothing for a turn or a use. Absent if none did. */
  ended_by?: string
}

/**
 * The record of a finished call, in the order of its columns: the public one field by field (wire
 * reference B.4), and whose it was and how its cost is known. Money in nano-dollars, times in
 * milliseconds.
 */
export interface Generation {
  id: string
  request_id: string
  created_at: string
  workspace_id: string
  key_hash: string | null
  user_id: string
  api_type: string
  model: string
  provider_name: string | null
  provider_responses: ProviderResponse[]
  upstream_id: string | null
  streamed: boolean
  cancelled: boolean
  finish_reason: string | null
  native_finish_reason: string | null
  latency: number | null
  generation_time: number | null
  native_tokens_prompt: number
  native_tokens_completion: number
  native_tokens_reasoning: number
  native_tokens_cached: number
  native_tokens_completion_images: number
  /** When its cost was counted, which decides its window. */
  settled_at: string
  total_cost: bigint | null
  upstream_inference_cost: bigint | null
  usageSource: 'exact' | 'estimated' | 'none'
  is_byok: boolean
  service_tier: string | null
  session_id: string | null
  external_user: string | null
  http_referer: string | null
  title: string | null
  user_agent: string | null
  error_type: string | null
  preset_id: string | null
  /** The region of the gateway that it came in through. */
  data_region: Region
  /** The router that chose the model, under the name that was requested. */
  router: string | null
  /** The call whose answer was given again; null for an answer of its own. */
  response_cache_source_id: string | null
  /** The batch that it is a line of. */
  batch_id: string | null
  /** What content filters found. */
  contentFilters: Finding[]
  /** What it did, in order; empty for a call of one turn. */
  steps: GenerationStep[]
}

/**
 * Stores generations. `record` is one transaction for the rows, those of the ledger, the days'
 * spending and the outbox. It throws 409 for what can never be stored: a generation that is on
 * record, a step that is already charged, an amount or a value that no column can hold.
 */
export interface GenerationStore {
  /** Whether it is on another machine, so that calls go on while it is away and they are kept. */
  readonly isElsewhere?: boolean | undefined
  /**
   * In milliseconds: how long a batch waits for more where calls end together. There it costs the
   * store as much as a dozen of them.
   */
  readonly gathering?: number | undefined
  /** Writes a batch, and returns what destinations are told with it. */
  record(batch: RecorderEntry[]): Promise<WrittenMessages[]>
  /**
   * Keeps those of a batch that `record` did not take where the next start finds them, and returns
   * them: none where nothing outlives the process but what is recorded. They are still to be recorded.
   */
  keep(batch: RecorderEntry[]): Promise<RecorderEntry[]>
  /** Writes what `record` has put aside: every process that reads the store sees it then. */
  flush(): Promise<void>
  byId(id: string): Promise<Generation | undefined>
  /**
   * Removes some of the calls that were settled before this midnight, with what was asked, answered
   * and said about them. Adds them to the sums of removed calls. Returns how many; 0 at the end.
   */
  evictBefore(midnight: string, now: string): Promise<number>
  /**
   * Lists at most `limit` calls that match, newest first, and only those before `cursor`: the id of
   * a call. Times have milliseconds, as in the records.
   */
  list(query: StoredListQuery, limit: number): Promise<Generation[]>
  /** Lists at most `limit` ids that begin with a text. */
  listIds(beginning: string, limit: number): Promise<string[]>
  /** Returns those of these ids, however many, that have a record. */
  filterRecorded(ids: string[]): Promise<Set<string>>
  /** Counts the calls of free models that began at `moment` or later. */
  countFreeCalls(moment: Date): Promise<number>
}

/** How the job of a call has ended. */
export interface EndedJob {
  id: string
  status: 'completed' | 'failed' | 'cancelled' | 'expired'
  /** Why there is no result; null if there is one. */
  error: string | null
  /** Where its results are; a JSON list. */
  outputs: string
  /** Nano-dollars. */
  cost: bigint | null
  ended_at: string
}

/** What came of one line of a batch, until it is written into a file. */
export interface BatchResult {
  batch_id: string
  line: number
  is_error: boolean
  /** The line of the file, sealed for its batch and number. */
  sealed: string
}

/** What is written of a call in one transaction. */
export interface RecorderEntry {
  /** The call, if it is finished; null for a step of one that goes on. */
  generation: Generation | null
  /** The cost of the step that ended with it. Null: no key is charged. */
  charge: StepCharge | null
  /** Messages about the call to outside receivers. They require a generation or a charge. */
  outbox?: OutboxMessage[]
  /** What was asked and answered, where that is kept. It requires a generation. */
  transcript?: StoredTranscript
  /** The job that the call has begun and that has ended with it. It requires a generation. */
  job?: EndedJob
  /** What came of the line of a batch that the call was made for. It requires a generation. */
  result?: BatchResult
}

/** A transcript as it is stored. Only the gateway’s secret opens it. */
export interface StoredTranscript {
  generation_id: string
  workspace_id: string
  key_hash: string | null
  created_at: string
  /** The bytes of the sealed text. */
  size_bytes: number
  sealed: string
}
