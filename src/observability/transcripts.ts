import { denied, isCallersFault, notFound, requireFound } from '../base/errors.ts'
import type { Ids } from '../base/ids.ts'
import type { Seal } from '../base/seal.ts'
import type { Config } from '../config.ts'
import type { Actor } from '../resources/actor.ts'
import { defineAudit } from '../resources/audit/entry.ts'
import type { AuditEntry } from '../resources/audit/store.ts'
import type { IdentityWorld } from '../resources/world.ts'
import { findGeneration } from './generations/find.ts'
import type { Generation, ProviderResponse, StoredTranscript } from './generations/store.ts'
import { getCallStatus } from './generations.ts'
import type { TelemetryWorld } from './world.ts'

/**
 * What was asked and answered in a call, as its client saw it: the texts that content filters left.
 * Messages have the form of the chat API (wire reference B.4).
 */
export interface Transcript {
  input: { prompt: string } | { messages: unknown[] }
  output: TranscriptOutput
}

export interface TranscriptOutput {
  completion: string | null
  reasoning: string | null
  /** The calls of the client's own tools; absent without any. */
  tool_calls?: { id: string; name: string; arguments: string }[]
  /** The texts of further choices; absent without any. */
  alternatives?: string[]
}

/** Stores transcripts. The recorder adds them in the transaction of their call. */
export interface TranscriptStore {
  find(generation_id: string): Promise<StoredTranscript | undefined>
  /** Returns the bytes of all of them. */
  computeUse(): Promise<number>
  /** Removes the oldest, at most 1,000, until all take at most `bytes`, and counts them. */
  trim(bytes: number, now: string): Promise<number>
  /** Removes at most 1,000 from before this time, and counts them. */
  removeBefore(time: string, now: string): Promise<number>
  /** Removes one. Throws 404 without it. */
  remove(generation_id: string, entry: AuditEntry): Promise<void>
}

/** The parts of the gateway that seal and open transcripts. */
export interface TranscriptWorld extends TelemetryWorld {
  store: TelemetryWorld['store'] & { transcripts: TranscriptStore }
  secrets: TelemetryWorld['secrets'] & {
    contentSeal: () => Seal
    previous(): { contentSeal: () => Seal } | null
  }
}

/** The largest transcript, in bytes: a longer one is not kept. */
export const LARGEST_TRANSCRIPT = 4 * 1024 * 1024

/** Seals a transcript for its call. Returns null for one that is too large to be kept. */
export function sealTranscript(
  { secrets, ids }: { secrets: { contentSeal: () => Seal }; ids: Pick<Ids, 'secret'> },
  { id, workspace_id, key_hash, created_at }: Generation,
  transcript: Transcript,
): StoredTranscript | null {
  const nonce = Buffer.from(ids.secret(), 'hex').subarray(-12)
  const text = JSON.stringify(transcript)
  if (text.length > LARGEST_TRANSCRIPT) return null
  const sealed = secrets.contentSeal().seal(text, id, nonce)
  return {
    generation_id: id,
    workspace_id,
    key_hash,
    created_at,
    size_bytes: sealed.length,
    sealed,
  }
}

/**
 * Returns what was asked and answered in a call, by its id or the request id that its caller saw.
 * An inference key sees its own calls, a management key those of its workspace. Throws 403 for
 * other calls that the actor sees the record of, and 404 for a call without content: it was not kept, or is no longer.
 */
export async function getGenerationContent(world: TranscriptWorld, actor: Actor, id: string) {
  const generation = await findGeneration(world, actor, id)
  if (!canReadContent(actor, generation))
    throw denied('Only the key that made the call and its workspace’s management keys can read it')
  const stored = await world.store.transcripts.find(generation.id)
  if (!stored || isOver(world, stored)) throw notFound('The content of this generation is not kept')
  const { input, output } = openTranscript(world, stored)
  const isOperator = actor.kind === 'operator'
  return { data: { input, output, error: showError(generation, isOperator) } }
}

const canReadContent = (actor: Actor, { key_hash, workspace_id }: Generation): boolean =>
  actor.kind === 'operator' ||
  (actor.kind === 'management' ? actor.workspace_id === workspace_id : actor.key_hash === key_hash)

// Whatever the removal of old rows is doing: the time is over when it is over.
const isOver = ({ config, clock }: TranscriptWorld, { created_at }: StoredTranscript): boolean =>
  created_at < findContentStart(config, clock.now())

const DAY = 86_400_000

/** Returns the time from which on content is kept, in ISO 8601. */
export const findContentStart = ({ retention }: Pick<Config, 'retention'>, now: Date): string =>
  new Date(now.getTime() - retention.content_days * DAY).toISOString()

function openTranscript(
  { secrets }: TranscriptWorld,
  { generation_id, sealed }: StoredTranscript,
): Transcript {
  const text =
    secrets.contentSeal().open(sealed, generation_id) ??
    secrets.previous()?.contentSeal().open(sealed, generation_id)
  if (text === undefined)
    throw notFound('The content of this generation was sealed with another secret')
  return JSON.parse(text)
}

// Only operators see a provider's words: they may be about the account there.
function showError(generation: Generation, isOperator: boolean) {
  const { error_type, provider_name, provider_responses } = generation
  if (error_type === null && !generation.cancelled) return null
  const failed = provider_responses.filter(({ error }) => error !== null)
  const last = failed.at(-1)
  return {
    message: findReason(last, isOperator) ?? error_type,
    previous_errors: failed.slice(0, -1).map(attempt => showAttempt(attempt, isOperator)),
    provider_name: last?.provider_name ?? provider_name,
    raw: null,
    status: getCallStatus(generation),
  }
}

function findReason(attempt: ProviderResponse | undefined, isOperator: boolean): string | null {
  const error = attempt?.error
  return error && (isOperator || isCallersFault(error.type)) ? error.message : null
}

const showAttempt = (attempt: ProviderResponse, isOperator: boolean) => ({
  code: attempt.status ?? 0,
  message: findReason(attempt, isOperator) ?? attempt.error?.type ?? '',
  provider_name: attempt.provider_name,
  raw: null,
})

type TranscriptTarget = Pick<StoredTranscript, 'generation_id' | 'workspace_id' | 'size_bytes'>

const auditTranscript = defineAudit<TranscriptTarget, IdentityWorld>('transcripts', {
  identify: ({ generation_id, workspace_id }) => ({ id: generation_id, workspace_id }),
})

/** Deletes what was asked and answered in a call, for good. Throws 404 where nothing is kept. */
export async function deleteGenerationContent(world: TranscriptWorld, actor: Actor, id: string) {
  const generation = await findGeneration(world, actor, id)
  const found = await world.store.transcripts.find(generation.id)
  const { generation_id, workspace_id, size_bytes } = requireFound(found, 'Content')
  const target = { generation_id, workspace_id, size_bytes }
  await world.store.transcripts.remove(generation_id, auditTranscript(world, actor, target, null))
  return { deleted: true as const }
}

export const MIB = 1024 * 1024
