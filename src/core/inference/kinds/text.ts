import { TEXT_DIALECTS } from '../../language/dialect.ts'
import { defineKind } from './define-kind.ts'
import { costing } from './text/costing.ts'
import { filtering } from './text/filtering.ts'
import { isMeaningful, metering } from './text/metering.ts'
import { matchesModalities, understanding } from './text/understanding.ts'

/** Conversations and completions: text in, text out, and whatever else models accept or return. */
export const text = defineKind<'text'>({
  apiType: 'completions',
  readApiType: ({ dialect }) => TEXT_DIALECTS[dialect].apiType,
  outputName: 'text',
  matchesModalities,
  isMeaningful,
  needsWhole: ({ dialect, stream }) => !stream && !TEXT_DIALECTS[dialect].showsPart,
  isFailure: part => part.type === 'finish' && part.reason === 'error',
  understanding,
  costing,
  metering,
  filtering,
})
