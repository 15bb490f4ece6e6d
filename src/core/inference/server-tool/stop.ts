import type { StopCondition } from '../../language/server-tools.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { Turn } from './turn.ts'

/** What a call has done so far. */
export interface Progress {
  /** The turns that the model has had. */
  turns: number
  /** The last of them. */
  turn: Turn
  /** Sums what all of them and all tools came to: few conditions ask for that. */
  sumReceipts(): Receipt
  /** Tells whether the function belongs to the tool of this name, or has the name itself. */
  isCallOf(functionName: string, toolName: string): boolean
}

/** Finds a condition that holds (wire reference D.2). */
export const findStop = (stops: StopCondition[], progress: Progress): StopCondition | undefined =>
  stops.find(stop => holds(stop, progress))

function holds(stop: StopCondition, { turns, turn, sumReceipts, isCallOf }: Progress): boolean {
  switch (stop.type) {
    case 'step_count_is':
      return turns >= stop.step_count
    case 'has_tool_call':
      return turn.blocks.some(
        block => block.type === 'tool-call' && isCallOf(block.name, stop.tool_name),
      )
    case 'max_tokens_used':
      return countTokens(sumReceipts()) >= stop.max_tokens
    case 'max_cost':
      return (sumReceipts().cost ?? 0n) >= stop.nanos
    case 'finish_reason_is':
      return turn.finish === stop.reason
  }
}

const countTokens = ({ usage }: Receipt): number =>
  countInputTokens(usage) + countOutputTokens(usage)
