import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import { Content, Id, list, Name, open, optional } from '../../../base/schema-builders.ts'
import type { Block } from '../../../language/message.ts'
import {
  BLOCK_SEPARATOR,
  isResponsesFormat,
  type ReasoningDetail,
} from '../../../language/reasoning.ts'
import { isSealed, openSeal } from './seal.ts'

/** The most parts of one item's reasoning. */
const MAX_PARTS = 4_096

const SummaryText = Type.Object({ type: Type.Literal('summary_text'), text: Content }, open)
const ReasoningText = Type.Object({ type: Type.Literal('reasoning_text'), text: Content }, open)

/** A reasoning item that a client sends back. */
export const ReasoningItem = Type.Object(
  {
    type: Type.Literal('reasoning'),
    id: optional(Id),
    summary: optional(list(SummaryText, { maxItems: MAX_PARTS })),
    content: optional(list(ReasoningText, { maxItems: MAX_PARTS })),
    encrypted_content: optional(Content),
    format: optional(Name),
    signature: optional(Content),
  },
  open,
)
export type ReasoningItem = Static<typeof ReasoningItem>

/** The format of items that do not name theirs: OpenAI's own have no `format`. */
const OPENAI_FORMAT = 'openai-responses-v1'

/**
 * Converts a reasoning item into the block that its provider made. `field` is its place in the
 * request. Throws 400 if what was sealed has been changed.
 */
export function toReasoningBlock(item: ReasoningItem, field: string): Block {
  const summary = (item.summary ?? []).map(({ text }) => text)
  const content = (item.content ?? []).map(({ text }) => text)
  const texts = [...summary, ...content]
  const encrypted = item.encrypted_content ?? ''
  const details = isSealed(encrypted)
    ? openSeal(encrypted, { summary, content })
    : listDetails(item)
  if (!details)
    throw invalid(
      `${field}: expected reasoning as it was received, found some that was changed since`,
      field,
    )
  const format = details[0]?.format
  return {
    type: 'reasoning',
    text: texts.length > 0 ? texts.join(BLOCK_SEPARATOR) : null,
    details: isResponsesFormat(format) ? addSeparators(details) : details,
  }
}

/** Lists the entries of an item that was not sealed: a provider's own, in its order. */
function listDetails(item: ReasoningItem): ReasoningDetail[] {
  const { id, summary, content, encrypted_content, signature } = item
  const format = item.format ?? OPENAI_FORMAT
  const entries: ReasoningDetail[] = [
    ...(summary ?? []).map(({ text }) => ({ type: 'reasoning.summary', summary: text })),
    ...(content ?? []).map(({ text }) => ({ type: 'reasoning.text', text })),
    ...(encrypted_content ? [{ type: 'reasoning.encrypted', data: encrypted_content }] : []),
  ]
  const last = entries.findLastIndex(({ type }) => type === 'reasoning.text')
  return entries.map((entry, index) => ({
    ...entry,
    ...(index === last && signature ? { signature } : {}),
    format,
    index,
    ...(id == null ? {} : { id }),
  }))
}

// Every text of such an entry but the first begins with the separator, as it would in an answer.
const addSeparators = (details: ReasoningDetail[]): ReasoningDetail[] =>
  details.map((detail, i) => {
    if (i === 0) return detail
    const { text, summary } = detail
    if (typeof summary === 'string') return { ...detail, summary: BLOCK_SEPARATOR + summary }
    return typeof text === 'string' ? { ...detail, text: BLOCK_SEPARATOR + text } : detail
  })
