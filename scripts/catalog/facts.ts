import type { ModelRow } from '../../src/resources/models/rows.ts'
import { ALWAYS_REASONING, INPUTS, OUTPUTS } from './overlay.ts'
import type { PiModel, PricedModel } from './sources.ts'

/** One model at one provider, from one source or from both. */
export interface FoundModel {
  provider: string
  /** The source's name for it. */
  id: string
  /** The provider's own name for it. */
  model: string
  name: string | undefined
  pi: PiModel | undefined
  priced: PricedModel | undefined
}

/**
 * Returns the larger context of the two sources: one may give the window of the cheaper tier only.
 */
export function findContextLength({ pi, priced }: FoundModel): number | undefined {
  const known = [pi?.contextWindow, priced?.context_window].filter(one => one !== undefined)
  return known.length > 0 ? Math.max(...known) : undefined
}

/** Finds the output modalities in the name, where it says that they are not text alone. */
export const findOutput = (name: string) => OUTPUTS.find(([pattern]) => pattern.test(name))?.[1]

/**
 * Returns the input and output modalities: no inputs where none are known, no outputs where they are
 * text only.
 */
export function readModalities(
  slug: string,
  pi: PiModel | undefined,
): Pick<ModelRow, 'input' | 'output'> {
  const name = slug.slice(slug.indexOf('/') + 1)
  const output = pi?.output ?? findOutput(name) ?? ['text']
  const more = INPUTS.find(([family]) => family.test(slug))?.[1] ?? []
  const audio = /audio|whisper|transcribe|voxtral/.test(name) ? ['audio'] : []
  const input = [...new Set([...(pi?.input ?? ['text']), ...more, ...audio])]
  return {
    ...(pi || input.length > 1 ? { input: ['text', ...input.filter(one => one !== 'text')] } : {}),
    ...(output.join() === 'text'
      ? {}
      : {
          output: [
            'text',
            'image',
            'audio',
            'embeddings',
            'rerank',
            'speech',
            'transcription',
          ].filter(one => output.includes(one)),
        }),
  }
}

const EFFORTS = ['max', 'xhigh', 'high', 'medium', 'low', 'minimal']

/** Returns how a model reasons. Undefined where it does not, or where that is not known. */
export function readReasoning(
  slug: string,
  pi: PiModel | undefined,
): ModelRow['reasoning'] | undefined {
  const always = ALWAYS_REASONING.test(slug)
  if (!pi?.reasoning) return always ? { mandatory: true } : undefined
  const { thinkingLevelMap: levels = {} } = pi
  const supported_efforts = EFFORTS.filter(effort => levels[effort])
  const mandatory = always || levels.off === null
  return {
    mandatory,
    ...(supported_efforts.length > 0
      ? { supported_efforts: mandatory ? supported_efforts : [...supported_efforts, 'none'] }
      : {}),
  }
}
