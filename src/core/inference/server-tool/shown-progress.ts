import type { TextPart, ToolProgress } from '../../language/part.ts'
import type { Run } from '../run.ts'
import type { ToolUse } from './use.ts'

type ProgressPart = Extract<TextPart, { type: 'server-tool-progress' }>

/**
 * What the uses of one turn do, until the client has read it. Pieces of one text that wait are
 * joined, so that a slow reader is kept few and long ones.
 */
export class ShownProgress {
  #parts: ProgressPart[] = []
  #wake: (() => void) | null = null

  /** Lets a use show what it does, as long as it has no result. */
  follow({ invocation, call, result }: ToolUse, hasEnded: () => boolean): void {
    if (!invocation || result) return
    invocation.show = progress => {
      if (!hasEnded()) this.#add({ type: 'server-tool-progress', choice: 0, id: call.id, progress })
    }
  }

  /** Returns what has come since, and forgets it. */
  take(): TextPart[] {
    return this.#parts.splice(0)
  }

  /** Ends the wait: something has come, or a use has ended. */
  wake(): void {
    this.#wake?.()
  }

  /** Resolves at the next `wake`, of which there is one for whatever comes. */
  wait(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #add(part: ProgressPart): void {
    // Several texts come side by side, and at most one piece of each waits.
    const { id, progress } = part
    const waiting = this.#parts.find(one => one.id === id && isOneText(one.progress, progress))
    if (waiting && 'text' in waiting.progress && 'text' in progress)
      waiting.progress = { ...waiting.progress, text: waiting.progress.text + progress.text }
    else this.#parts.push(part)
    this.wake()
  }
}

/** Whether these are pieces of one text. */
const isOneText = (one: ToolProgress, other: ToolProgress): boolean =>
  PIECES.includes(one.type) &&
  one.type === other.type &&
  ('model' in one ? one.model : null) === ('model' in other ? other.model : null)

const PIECES: ToolProgress['type'][] = ['text', 'panel-text', 'panel-reasoning']

/**
 * Whether the client of a run is shown what its uses of tools do. Only the events of the Responses
 * API have a form for that (wire reference D.5, D.6).
 */
export const showsProgress = ({ call, within }: Run): boolean =>
  call.kind === 'text' && call.stream && call.dialect === 'responses' && within === null
