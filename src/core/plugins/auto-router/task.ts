import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import { TOLD, type Told, WORDS } from './words.data.ts'

/** What a call is for, as far as it can be detected. */
export type Task = 'vision' | 'agentic' | 'extraction' | 'long-context' | Told | 'chat'

/** The tokens from which a prompt is long. */
const LONG = 64_000

/**
 * Detects the task of a call whose prompt has this many tokens. The criteria in order: pictures in
 * the last user message, tools that the model may call, a JSON answer, a long prompt, words, and a
 * request for reasoning. Words are read at both ends of the last user message and, at half their
 * weight, at the beginning of the instructions. The same call always has the same task. At most
 * three excerpts of `EXCERPT_LENGTH` characters are read, however long the call is.
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

/** Tells whether the caller asks for reasoning. */
export const thinks = ({ params: { reasoning } }: TextCall): boolean =>
  reasoning !== undefined && reasoning.enabled !== false && reasoning.effort !== 'none'

/** Characters. A text states its task at the beginning or the end; its subject is in between. */
const STRETCH = 1_024

/** The weights of a word in the user's message. In the instructions they are halved. */
const STRONG = 4
const WEAK = 2
/** The least sum of weights that identifies a task. */
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

/** Reads the beginning and the end of a message's text, in lower case. */
function endsOf({ blocks }: Turn): string {
  const texts = blocks.flatMap(block => (block.type === 'text' ? block.text : []))
  const [first = ''] = texts
  const last = texts.at(-1) ?? ''
  const isShort = texts.length === 1 && first.length <= 2 * STRETCH
  return (isShort ? first : `${first.slice(0, STRETCH)}\n${last.slice(-STRETCH)}`).toLowerCase()
}

const wordsIn = (text: string): Set<string> => new Set(text.match(/[\p{L}-]+/gu))

/** Adds up the weights of a task's words. Each word counts once, however often it occurs. */
function weightOf(task: Told, words: Set<string>, text: string): number {
  const { strong, weak, signs } = WORDS[task]
  const found = (list: string[]) => list.reduce((count, word) => count + Number(words.has(word)), 0)
  return (
    found(strong) * STRONG +
    found(weak) * WEAK +
    signs.reduce((sum, sign) => sum + (text.includes(sign) ? STRONG : 0), 0)
  )
}
