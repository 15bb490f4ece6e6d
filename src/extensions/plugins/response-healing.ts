import type { AnswerFilter } from '../../engine/kind.ts'
import type { PipelineStage } from '../../engine/plan/candidates.ts'
import type { Run } from '../../engine/run.ts'
import type { ResponseFormat } from '../../language/params.ts'
import type { TextPart } from '../../language/part.ts'
import { createAsker } from '../asker.ts'
import type { Healed } from '../healing.ts'
import { type Plugin, requireOptions } from '../plugin.ts'
import type { ExtensionWorld } from '../world.ts'

/**
 * The `response-healing` plugin: an answer that should be JSON and is not quite is mended (wire
 * reference C.4). Only whole answers are: what has been streamed cannot be taken back.
 */
export const responseHealing: Plugin<object> = {
  id: 'response-healing',
  readOptions(entry, at) {
    requireOptions(entry, at, [])
    return {}
  },
  after(world, run) {
    if (run.call.kind !== 'text') return null
    const format = readFormat(run.call.params.response_format)
    const reason = run.call.stream
      ? 'A streamed answer is not mended.'
      : format
        ? null
        : 'The call asks for no JSON.'
    if (!reason && format) return new HealingFilter(world, run, format)
    run.pluginStages.push(buildStage(reason ?? '', { improved: false }))
    return null
  },
}

/** How an answer should look: its schema, if it has one. */
interface JsonFormat {
  mode: 'json_object' | 'json_schema'
  schema: unknown
}

function readFormat(format: ResponseFormat | undefined): JsonFormat | null {
  if (format?.type === 'json_object') return { mode: 'json_object', schema: null }
  if (format?.type !== 'json_schema') return null
  const schema = 'json_schema' in format ? (format.json_schema.schema ?? null) : null
  return { mode: 'json_schema', schema }
}

type ChoicePart = Extract<TextPart, { choice: number }>

/** Holds an answer back until its end, and mends the text of each alternative. */
class HealingFilter implements AnswerFilter<TextPart> {
  readonly #world: ExtensionWorld
  readonly #run: Run
  readonly #format: JsonFormat
  readonly #held: ChoicePart[] = []
  readonly blocked = null

  constructor(world: ExtensionWorld, run: Run, format: JsonFormat) {
    this.#world = world
    this.#run = run
    this.#format = format
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    return parts.filter(part => {
      if (!('choice' in part)) return true
      this.#held.push(part)
      return false
    })
  }

  async end(): Promise<TextPart[]> {
    const out: TextPart[] = []
    for (const parts of Map.groupBy(this.#held, ({ choice }) => choice).values())
      out.push(...(await this.#healChoice(parts)))
    return out
  }

  async #healChoice(parts: ChoicePart[]): Promise<ChoicePart[]> {
    const { mode, schema } = this.#format
    const texts = parts.filter(part => part.type === 'text-delta')
    const reason = findObstacle(parts)
    const healed: Healed | null = reason
      ? null
      : await this.#world.healer.heal(
          { text: texts.map(({ text }) => text).join(''), schema },
          createAsker(this.#run, this.#run.cancellation),
        )
    this.#run.pluginStages.push(
      healed ? renderHealed(healed, mode) : buildStage(reason ?? '', { mode, improved: false }),
    )
    return healed?.outcome === 'mended' ? replaceText(parts, healed.text) : parts
  }
}

/** Finds why an alternative is not looked at: it is no text, or not all of one. */
function findObstacle(parts: ChoicePart[]): string | null {
  const finish = parts.find(part => part.type === 'finish')
  if (parts.some(({ type }) => type === 'tool-call-start')) return 'The answer calls tools.'
  if (parts.every(({ type }) => type !== 'text-delta')) return 'The answer has no text.'
  if (finish?.reason === 'length') return 'The answer was cut off at its limit.'
  return finish?.reason === 'stop' ? null : 'The answer did not end by itself.'
}

/** Puts the text into the place of its first piece. Log probabilities are those of the old one. */
function replaceText(parts: ChoicePart[], text: string): ChoicePart[] {
  const first = parts.find(part => part.type === 'text-delta')
  return parts.flatMap((part): ChoicePart[] => {
    if (part.type !== 'text-delta') return [part]
    if (part !== first) return []
    const { logprobs: _, ...kept } = part
    return [{ ...kept, text }]
  })
}

const REASONS: Record<Extract<Healed, { outcome: 'unmended' }>['reason'], string> = {
  'no-json': 'The answer has no JSON that could be mended.',
  schema: 'What JSON the answer has does not fit what was asked for.',
  'too-long': 'The answer is too long to be mended.',
  'too-deep': 'The answer is nested too deep to be mended.',
  'too-slow': 'The answer could not be mended in time.',
}

function renderHealed(healed: Healed, mode: JsonFormat['mode']): PipelineStage {
  if (healed.outcome === 'valid')
    return buildStage('The answer was as it should be.', { mode, improved: false })
  if (healed.outcome === 'unmended')
    return buildStage(REASONS[healed.reason], { mode, improved: false, reason: healed.reason })
  const { steps, isChecked } = healed
  return buildStage(`The answer was mended: ${steps.join(', ')}.`, {
    ...{ mode, improved: true, steps },
    ...(isChecked ? {} : { schema_checked: false }),
  })
}

const buildStage = (summary: string, data: Record<string, unknown>): PipelineStage => ({
  type: 'response_healing',
  name: 'response-healing',
  summary,
  data,
})
