import { type Static, Type } from '@sinclair/typebox'
import { getIsoTime } from '../base/clock.ts'
import { oneOf } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import { defineAudit } from '../resources/audit/entry.ts'
import type { AuditEntry } from '../resources/audit/store.ts'
import { findGeneration } from './generations/find.ts'
import type { TelemetryWorld } from './world.ts'

/** What feedback is about (wire reference B.4). */
export const FEEDBACK_CATEGORIES = [
  'latency',
  'incoherence',
  'incorrect_response',
  'formatting',
  'billing',
  'api_error',
  'other',
] as const

/** What a caller says about an answer. Times in ISO 8601. */
export interface Feedback {
  generation_id: string
  /** The key that says it; empty in a session and at the terminal. */
  key_hash: string
  /** Who says it without a key; empty for a key. */
  user_id: string
  category: string
  comment: string | null
  created_at: string
}

/** Stores feedback: one opinion of a key or person for each category, the last one. */
export interface FeedbackStore {
  put(feedback: Feedback, entry: AuditEntry): Promise<void>
  /** Lists what was said about a call, oldest first. */
  list(generation_id: string): Promise<Feedback[]>
}

/** The body of `POST /generation/feedback`. */
export const NewFeedback = Type.Object({
  generation_id: Type.String({ minLength: 1, maxLength: 200 }),
  category: oneOf(...FEEDBACK_CATEGORIES),
  comment: Type.Optional(Type.String({ maxLength: 1_000 })),
})

export type NewFeedback = Static<typeof NewFeedback>

const auditFeedback = defineAudit<Feedback & { workspace_id: string }>('feedback', {
  identify: ({ generation_id, workspace_id }) => ({ id: generation_id, workspace_id }),
  show: ({ category }) => ({ category }),
})

interface FeedbackWorld extends TelemetryWorld {
  store: TelemetryWorld['store'] & { feedback: FeedbackStore }
}

/**
 * Notes feedback about a call, by its id or request id. It replaces what the same key, or person
 * without one, has said in the category. Throws 404 for a call that does not exist in the actor's workspace.
 */
export async function submitFeedback(world: FeedbackWorld, actor: Actor, input: NewFeedback) {
  const { id, workspace_id } = await findGeneration(world, actor, input.generation_id)
  const feedback: Feedback = {
    generation_id: id,
    key_hash: actor.key_hash ?? '',
    user_id: actor.key_hash === null ? actor.user_id : '',
    category: input.category,
    comment: input.comment ?? null,
    created_at: getIsoTime(world),
  }
  const about = { ...feedback, workspace_id }
  await world.store.feedback.put(feedback, auditFeedback(world, actor, null, about))
  return { data: { success: true as const } }
}

/** The input of `generations feedback`. */
export const FeedbackAbout = Type.Omit(NewFeedback, ['generation_id'])

/** Notes feedback about this call. Throws as `submitFeedback` does. */
export const submitFeedbackAbout = (
  world: FeedbackWorld,
  actor: Actor,
  generation_id: string,
  input: Static<typeof FeedbackAbout>,
) => submitFeedback(world, actor, { ...input, generation_id })

/** Lists what was said about a call. Throws 404 as `submitFeedback` does. */
export async function listFeedback(world: FeedbackWorld, actor: Actor, id: string) {
  const generation = await findGeneration(world, actor, id)
  return { data: await world.store.feedback.list(generation.id) }
}
