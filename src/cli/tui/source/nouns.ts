import type { Static } from '@sinclair/typebox'
import type { Gateway } from '../../../app/gateway.ts'
import { invalid } from '../../../base/errors.ts'
import type { Actor } from '../../../resources/actor.ts'
import { defineTerminalOperation, type Operation, type Run } from '../../../resources/operation.ts'
import type { Change, Noun } from '../source.ts'

/** What can be done with each noun, by the words of its commands. */
const OPERATIONS: Record<Noun, () => Promise<Record<string, Operation<Run<Gateway, Actor>>>>> = {
  keys: async () => (await import('../../../resources/keys/operations.ts')).keys.operations,
  workspaces: async () =>
    (await import('../../../resources/workspaces/operations.ts')).workspaces.operations,
  members: async () =>
    (await import('../../../resources/members/operations.ts')).members.operations,
  budgets: async () => (await import('../../../limits/budgets/operations.ts')).budgets.operations,
  presets: async () => ({
    ...(await import('../../../resources/presets/operations.ts')).presets.operations,
    create: await definePresetCreation(),
  }),
  guardrails: async () =>
    (await import('../../../limits/guardrails/operations.ts')).guardrails.operations,
  byok: async () => (await import('../../../resources/byok/operations.ts')).byok.operations,
  destinations: async () =>
    (await import('../../../observability/destinations/operations.ts')).destinations.operations,
  alerts: async () =>
    (await import('../../../observability/alerts/operations.ts')).alerts.operations,
  credits: async () => (await import('../../../limits/credits.ts')).credits.operations,
  audit: async () => (await import('../../../resources/audit.ts')).audit.operations,
}

// Here a preset is made of the body of a chat request; its command takes that of every dialect.
async function definePresetCreation() {
  const { createPreset } = await import('../../../resources/presets.ts')
  const { buildPresetDraft } = await import('../../../translation/dialects/presets.ts')
  const { findPresetForm } = await import('../../../translation/dialects/registry.ts')
  const form = findPresetForm('chat')
  return defineTerminalOperation(
    (gateway: Gateway, actor: Actor, slug: string, body: Static<typeof form.body>) =>
      createPreset(gateway, actor, slug, buildPresetDraft(gateway, actor, form, body)),
    form.body,
  )
}

/** Finds an operation. Throws 400 for a verb that the noun does not know. */
export async function findOperation(noun: Noun, verb: string) {
  const operation = (await OPERATIONS[noun]())[verb]
  if (!operation) throw invalid(`${noun} know no ${verb}`)
  return operation
}

/** Splits what a change names into the names in a path: a budget's are a workspace and an interval. */
export const splitId = ({ id }: Change): string[] => (id === '' ? [] : id.split(' '))

/** Returns the text of an answer that is shown this once: a new key. */
export const pickSecret = ({ noun }: Change, answer: unknown): string | null => {
  const key = (answer as { key?: unknown } | undefined)?.key
  return noun === 'keys' && typeof key === 'string' ? key : null
}

/** The nouns whose list is that of one workspace. */
export const PLACED = new Set<Noun>(['guardrails', 'byok', 'destinations', 'alerts'])
