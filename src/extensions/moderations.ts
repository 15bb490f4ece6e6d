import { type Static, Type } from '@sinclair/typebox'
import { Cancellation } from '../base/cancellation.ts'
import { denied, invalid, unavailable } from '../base/errors.ts'
import { isObject, type Json } from '../base/json.ts'
import { list, Name, open, optional, SomeContent } from '../base/schema-builders.ts'
import { admitRequest } from '../engine/admit.ts'
import { requireService } from '../engine/plan/constraints.ts'
import type { InferenceWorld } from '../engine/world.ts'
import type { CallBase } from '../language/call.ts'
import { getPolicy } from '../limits/effective.ts'
import type { FilterSet } from '../limits/filters/filter-set.ts'
import { askProvider } from '../network/side-request.ts'
import type { Actor } from '../resources/actor.ts'

/** The most texts of a request, as OpenAI judges no more at once. */
const MOST_INPUTS = 2_048

const Part = Type.Object({ type: Name, text: optional(SomeContent) }, open)

/** The body of `POST /moderations`, as OpenAI’s clients send it. */
export const ModerationRequest = Type.Object(
  {
    input: Type.Union([
      SomeContent,
      list(SomeContent, { minItems: 1, maxItems: MOST_INPUTS }),
      list(Part, { minItems: 1, maxItems: MOST_INPUTS }),
    ]),
    model: optional(Name),
  },
  open,
)
export type ModerationRequest = Static<typeof ModerationRequest>

const TIMEOUT = 30_000
const LARGEST_ANSWER = 16 * 1024 * 1024

/**
 * Judges texts by the provider that judges calls (`plugins.moderation`), or else by the content
 * filters of the key. Counts as a call of the key. Throws 403 for a management key and where rules
 * keep the texts from the provider, 400 where there is nothing to judge with, 429, and what a
 * provider throws that gives no verdict.
 */
export async function moderate(
  world: InferenceWorld,
  actor: Actor,
  body: ModerationRequest,
): Promise<Json> {
  if (actor.kind === 'management') throw denied('Management keys cannot be used for inference')
  const leave = await admitRequest(world, actor)
  try {
    const { moderation } = world.config.plugins
    return moderation
      ? await askJudge(world, actor, body, moderation)
      : await judgeByFilters(world, actor, body)
  } finally {
    leave()
  }
}

const NO_PREFERENCES = { models: [], routing: {} } as unknown as CallBase

async function askJudge(
  world: InferenceWorld,
  actor: Actor,
  { input }: ModerationRequest,
  judge: NonNullable<InferenceWorld['config']['plugins']['moderation']>,
): Promise<Json> {
  const provider = world.catalog.providers.get(judge.provider)
  if (!provider?.configured)
    throw unavailable(`${judge.provider}, which moderates, is not configured`)
  const policy = getPolicy(world, actor)
  requireService(world, { call: NO_PREFERENCES, policy }, { ...judge, name: 'moderation' })
  const answer = await askProvider(world, provider, {
    path: '/moderations',
    body: { model: judge.model, input },
    maxBytes: LARGEST_ANSWER,
    timeoutMilliseconds: TIMEOUT,
    cancellation: new Cancellation(),
  })
  const { results } = answer
  const isWhole =
    Array.isArray(results) &&
    results.every(result => isObject(result) && typeof result.flagged === 'boolean')
  if (!isWhole) throw unavailable(`${provider.name} gave no verdict`)
  return { id: createId(world), model: judge.model, results }
}

const createId = ({ ids }: InferenceWorld): string => `modr-${ids.uuid().replaceAll('-', '')}`

async function judgeByFilters(
  world: InferenceWorld,
  actor: Actor,
  { input }: ModerationRequest,
): Promise<Json> {
  const filters = (await getPolicy(world, actor).filters)?.getInputFilters('user')
  if (!filters)
    throw invalid(
      'input: nothing judges it, as this gateway has no provider that moderates ' +
        '(plugins.moderation) and this key no content filters',
      'input',
    )
  const results: Json[] = []
  for (const text of listTexts(input)) results.push(await judgeText(text, filters))
  return { id: createId(world), model: 'content-filters', results }
}

function listTexts(input: ModerationRequest['input']): string[] {
  return [input].flat().map((part, i) => {
    if (typeof part === 'string') return part
    if (part.type === 'text' && part.text) return part.text
    throw invalid(`input.${i}: expected a text, as content filters read no others`, `input.${i}`)
  })
}

/** What each filter found, under its name as records have it. */
async function judgeText(text: string, filters: FilterSet): Promise<Json> {
  const found = new Set((await filters.search(text)).map(({ rule }) => rule.filter))
  const names = filters.rules.map(({ filter }) => filter)
  const tell = (yes: unknown, no: unknown) =>
    Object.fromEntries(names.map(name => [name, found.has(name) ? yes : no]))
  return {
    flagged: found.size > 0,
    categories: tell(true, false),
    category_scores: tell(1, 0),
    category_applied_input_types: tell(['text'], ['text']),
  }
}
