import { Cancellation } from '../base/cancellation.ts'
import { denied } from '../base/errors.ts'
import { admitRequest } from '../engine/admit.ts'
import { unknownModel } from '../engine/plan/refusal.ts'
import { findRouterReference } from '../engine/plan.ts'
import type { TextCall } from '../language/call.ts'
import type { Actor } from '../resources/actor.ts'
import type { Model } from '../resources/models/catalog.ts'
import { findModel } from '../resources/models.ts'
import { getTokenizerFamily } from '../translation/tokenizers/families.ts'
import { estimatePrompt } from '../translation/tokenizers/prompt.ts'
import { openReading } from './reading-memory.ts'
import { readStoredFiles } from './stored-files.ts'
import type { ExtensionWorld } from './world.ts'

/**
 * Counts the tokens of a prompt as the first model of the call would, without asking a provider.
 * Stored files count as if they were sent, and what has no text is estimated. Takes a place among the calls of the key while it counts, and
 * counts as one of them. Throws 403 for a management key, 400 for an unknown model and a file
 * that the key's workspace does not have, and 429.
 */
export async function countTokens(
  world: ExtensionWorld,
  actor: Actor,
  call: TextCall,
): Promise<number> {
  if (actor.kind === 'management') throw denied('Management keys cannot be used for inference')
  const family = getTokenizerFamily(requireNames(world, call.models[0] ?? ''))
  const leave = await admitRequest(world, actor)
  const { admission } = world.traffic
  const memory = admission.beginAnswer(actor.key_hash ?? actor.kind, call)
  try {
    const count = (texts: string[]) => world.tokenizers.count(family, texts)
    const reading = { cancellation: new Cancellation(), grow: openReading(world, () => memory) }
    const whole = await readStoredFiles(world, actor, call, reading)
    const { text, audio, video } = await estimatePrompt(whole ?? call, count)
    return text + audio + video
  } finally {
    admission.endAnswer(memory)
    leave()
  }
}

// A router has not picked a model yet.
function requireNames(world: ExtensionWorld, slug: string) {
  const model = world.catalog.models.get(slug) ?? findModel(world, slug)
  if (!model && !findRouterReference(world, slug)) throw unknownModel(world.catalog, slug)
  return { model: model?.id ?? slug, upstreamModel: findUpstreamName(model) }
}

const findUpstreamName = (model: Model | undefined): string => {
  const { endpoints = [] } = model ?? {}
  const endpoint = endpoints.find(({ provider }) => provider.configured) ?? endpoints[0]
  return endpoint?.upstreamModel ?? ''
}
