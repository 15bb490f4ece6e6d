import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import { TOLD, type Told, WORDS } from './words.data.ts'

/** What a call is for, as far as it shows. */
export type Task = 'vision' | 'agentic' | 'extraction' | 'long-context' | Told | 'chat'

/** Tokens from which a prompt is a long one. */
const LONG = 64_000

/**
 * The task of a call, whose prompt has so many tokens. What a call has tells it before what it says: pictures in its last turn, then tools that
 * the model may call, then a form of the answer, then a long prompt; then the words at both ends of the last user turn and, half as
 * telling, at the beginning of the instructions; then a wish to reason. The same call has always the same task. At most three stretches
 * of `STRETCH` characters are read, however long the call is.
 */
export function taskOf(call: TextCall, tokens: number): Task {
  const { tools, params, turns } = call
  const last = turns.findLast(({ role }) => role === 'user')
  if (last?.blocks.some(isSeen)) return 'vision'
  if (tools.length > 0 && params.tool_choice !== 'none') return 'agentic'
  if (params.response_format?.type.startsWith('json')) return 'extraction'
  if (tokens >= LONG) return 'long-context'
  return toldBy(last, turns.find(isInstruction)) ?? (thinks(call) ? 'reasoning' : 'chat')
}

const isSeen = ({ type }: Block) => type === 'image' || type === 'video'
const isInstruction = ({ role }: Turn) => role === 'system' || role === 'developer'

/** Whether the caller asks for thoughts. */
export const thinks = ({ params: { reasoning } }: TextCall): boolean =>
  reasoning !== undefined && reasoning.enabled !== false && reasoning.effort !== 'none'

/** What is asked for stands at the beginning of a text or at its end; what is between is often what it is asked about. */
const STRETCH = 1_024

/** What a word of the caller counts; half of it in the instructions. */
const STRONG = 4
const WEAK = 2
/** From which sum on a task is told. */
const ENOUGH = 4

function toldBy(last: Turn | undefined, instructions: Turn | undefined): Told | undefined {
  const asked = last ? endsOf(last) : ''
  const said = instructions ? endsOf(instructions).slice(0, STRETCH) : ''
  const [own, given] = [wordsIn(asked), wordsIn(said)]
  let best: { task: Told | undefined; sum: number } = { task: undefined, sum: ENOUGH - 1 }
  for (const task of TOLD) {
    const sum = weightOf(task, own, asked) + weightOf(task, given, said) / 2
    if (sum > best.sum) best = { task, sum }
  }
  return best.task
}

/** The beginning and the end of what a turn says, in small letters. */
function endsOf({ blocks }: Turn): string {
  const texts = blocks.flatMap(block => (block.type === 'text' ? block.text : []))
  const [first = ''] = texts
  const last = texts.at(-1) ?? ''
  const isShort = texts.length === 1 && first.length <= 2 * STRETCH
  return (isShort ? first : `${first.slice(0, STRETCH)}\n${last.slice(-STRETCH)}`).toLowerCase()
}

const wordsIn = (text: string): Set<string> => new Set(text.match(/[\p{L}-]+/gu))

/** Each word counts once, however often it is said. */
function weightOf(task: Told, words: Set<string>, text: string): number {
  const { strong, weak, signs } = WORDS[task]
  const found = (list: string[]) => list.reduce((count, word) => count + Number(words.has(word)), 0)
  return (
    found(strong) * STRONG +
    found(weak) * WEAK +
    signs.reduce((sum, sign) => sum + (text.includes(sign) ? STRONG : 0), 0)
  )
}
