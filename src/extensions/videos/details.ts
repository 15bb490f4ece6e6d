import type { VideoParams } from '../../language/video.ts'
import type { Subaccount } from '../../limits/ledger.ts'
import type { Generation, StoredTranscript } from '../../observability/generations/store.ts'
import type { OutboxMessage } from '../../observability/outbox.ts'
import type { Prices } from '../../resources/prices.ts'

/** What the record of a job's call needs when the job ends, as it was when the job began. */
export interface JobDetails {
  params: VideoParams
  /** The seconds that were asked for; null if the provider chooses. */
  seconds: number | null
  /** What it is charged at; null where no price is known. */
  prices: Prices | null
  /** The record as far as it is known. */
  generation: Generation
  transcript: StoredTranscript | null
  outbox: OutboxMessage[]
  /** The subaccounts that it counts in; absent for almost all. */
  subaccounts?: Subaccount[]
}

/** Writes the details as JSON, which has no numbers as large as amounts of money. */
export const renderDetails = (details: JobDetails): string =>
  JSON.stringify(details, (_, value) => (typeof value === 'bigint' ? { nanos: `${value}` } : value))

/** Reads what `renderDetails` has written. */
export const parseDetails = (json: string): JobDetails =>
  JSON.parse(json, (_, value) => (isAmount(value) ? BigInt(value.nanos) : value))

const isAmount = (value: unknown): value is { nanos: string } =>
  typeof value === 'object' &&
  value !== null &&
  Object.keys(value).length === 1 &&
  'nanos' in value &&
  typeof value.nanos === 'string' &&
  /^-?\d+$/.test(value.nanos)
