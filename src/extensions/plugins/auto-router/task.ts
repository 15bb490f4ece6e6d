import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'
import { WORD_TASKS, WORDS, type WordTask } from './words.data.ts'

/** What a call is for, as far as it can be detected. */
export type Task = 'vision' | 'agentic' | 'extraction' | 'long-context' | WordTask | 'chat'

/** The tokens from which a prompt is long. */
const LONG_PROMPT = 64_000

/**
 * Detects the task of a call whose prompt has this many tokens. The criteria in order: pictures in
 * the last user message, tools that the model may call, a JSON answer, a long prompt, words, and a
 * request for reasoning. Words are read at both ends of the last user message and, at half their
 * weight, at the beginning of the instructions. The same call always has the same task. At most
 * three excerpts of `EXCERPT_LENGTH` characters are read, however long the call is.
 */
export function detectTask(call: TextCall, tokens: number): Task {
  const { tools, params, messages } = call
  const last = messages.findLast(({ role }) => role === 'user')
  if (last?.blocks.some(isVisual)) return 'vision'
  if (tools.length > 0 && params.tool_choice !== 'none') return 'agentic'
  if (params.response_format?.type.startsWith('json')) return 'extraction'
  if (tokens >= LONG_PROMPT) return 'long-context'
  return (
    detectTaskByWords(last, messages.find(isInstruction)) ??
    (wantsReasoning(call) ? 'reasoning' : 'chat')
  )
}

const isVisual = ({ type }: Block) => type === 'image' || type === 'video'
const isInstruction = ({ role }: Message) => role === 'system' || role === 'developer'

/** Tells whether the caller asks for reasoning. */
export const wantsReasoning = ({ params: { reasoning } }: TextCall): boolean =>
  reasoning !== undefined && reasoning.enabled !== false && reasoning.effort !== 'none'

/** Characters. A text states its task at the beginning or the end; its subject is in between. */
const EXCERPT_LENGTH = 1_024

/** The weights of a word in the user's message. In the instructions they are halved. */
const STRONG_WEIGHT = 4
const WEAK_WEIGHT = 2
/** The least sum of weights that identifies a task. */
const MIN_WEIGHT = 4

function detectTaskByWords(
  last: Message | undefined,
  instructions: Message | undefined,
): WordTask | undefined {
  const userText = last ? readEnds(last) : ''
  const instructionText = instructions ? readEnds(instructions).slice(0, EXCERPT_LENGTH) : ''
  const [promptWords, instructionWords] = [collectWords(userText), collectWords(instructionText)]
  let best: { task: WordTask | undefined; sum: number } = { task: undefined, sum: MIN_WEIGHT - 1 }
  for (const task of WORD_TASKS) {
    const sum =
      computeWeight(task, promptWords, userText) +
      computeWeight(task, instructionWords, instructionText) / 2
    if (sum > best.sum) best = { task, sum }
  }
  return best.task
}

/** Reads the beginning and the end of a message's text, in lower case. */
function readEnds({ blocks }: Message): string {
  const texts = blocks.flatMap(block => (block.type === 'text' ? block.text : []))
  const [first = ''] = texts
  const last = texts.at(-1) ?? ''
  const isShort = texts.length === 1 && first.length <= 2 * EXCERPT_LENGTH
  return (
    isShort ? first : `${first.slice(0, EXCERPT_LENGTH)}\n${last.slice(-EXCERPT_LENGTH)}`
  ).toLowerCase()
}

const collectWords = (text: string): Set<string> => new Set(text.match(/[\p{L}-]+/gu))

/** Adds up the weights of a task's words. Each word counts once, however often it occurs. */
function computeWeight(task: WordTask, words: Set<string>, text: string): number {
  const { strong, weak, signs } = WORDS[task]
  const countFound = (list: string[]) =>
    list.reduce((count, word) => count + Number(words.has(word)), 0)
  return (
    countFound(strong) * STRONG_WEIGHT +
    countFound(weak) * WEAK_WEIGHT +
    signs.reduce((sum, sign) => sum + (text.includes(sign) ? STRONG_WEIGHT : 0), 0)
  )
}
