import type { TextPart } from '../../language/part.ts'
import { defineKind } from './define-kind.ts'
import { costing } from './text/costing.ts'
import { filtering } from './text/filtering.ts'
import { metering } from './text/metering.ts'
import { understanding } from './text/understanding.ts'

/** Conversations and completions: text in, text out, whatever else comes with it. */
export const text = defineKind<'text'>({
  apiType: 'completions',
  gives: 'text',
  isGivenBy: modalities => modalities.some(modality => GIVEN.includes(modality)),
  isMeaningful,
  understanding,
  costing,
  metering,
  filtering,
})

const GIVEN = ['text', 'image', 'audio']

function isMeaningful(part: TextPart): boolean {
  if (part.type === 'text-delta' || part.type === 'refusal-delta') return part.text !== ''
  // An answer that ends in an error before it says anything is none: another may do better.
  if (part.type === 'finish') return part.reason !== 'error'
  return !TOLD_BESIDES.has(part.type)
}

const TOLD_BESIDES = new Set<TextPart['type']>(['start', 'usage', 'echo', 'error'])
