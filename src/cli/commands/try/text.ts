import { GatewayError } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import { toPrintable } from '../../../base/printable.ts'
import { printNote, write } from '../../output.ts'
import type { Asker } from './asker.ts'

/**
 * Prints an answer as it comes, and at its end on stderr what it cost. Throws what it is refused
 * with, and what breaks it off.
 */
export async function printStream(asker: Asker, body: object): Promise<void> {
  const seen: { last: string; usage: Json | null } = { last: '\n', usage: null }
  for await (const data of asker.askEvents('chat', body)) {
    const event = parseObject(data)
    if (!event) continue
    if (isObject(event.error)) throw await breakOff(seen.last, event.error)
    const text = readText(event)
    if (text !== '') await write(toShown(text))
    seen.last = text.at(-1) ?? seen.last
    if (isObject(event.usage)) seen.usage = event.usage
  }
  if (seen.last !== '\n') await write('\n')
  if (seen.usage) printNote(describeUsage(seen.usage))
}

const readText = (event: Json): string =>
  readObjects(event.choices)
    .map(choice => readString(readObject(choice, 'delta').content) ?? '')
    .join('')

/** Line ends and tabs are part of a text; other controls could move the cursor. */
const toShown = (text: string): string => text.replace(/[^\n\t]+/g, toPrintable)

async function breakOff(last: string, { message }: Json): Promise<Error> {
  if (last !== '\n') await write('\n')
  return new GatewayError('provider_unavailable', readString(message) ?? 'The answer broke off')
}

/** Describes what an answer counted and cost, on one line. */
export function describeUsage({ prompt_tokens, completion_tokens, cost }: Json): string {
  const counted =
    typeof prompt_tokens === 'number' && typeof completion_tokens === 'number'
      ? [`${prompt_tokens} tokens in, ${completion_tokens} out`]
      : []
  const paid = typeof cost === 'number' ? [`${formatUsd(cost)}`] : ['of unknown cost']
  return [...counted, ...paid].join(', ')
}

const formatUsd = (usd: number): string => `$${Number(usd.toFixed(9))}`
