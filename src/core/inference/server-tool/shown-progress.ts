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
    const last = this.#parts.at(-1)
    const joined = last && last.id === part.id ? join(last.progress, part.progress) : null
    if (last && joined) this.#parts[this.#parts.length - 1] = { ...last, progress: joined }
    else this.#parts.push(part)
    this.wake()
  }
}

/** Joins two pieces of one text; null if they are not. */
function join(last: ToolProgress, next: ToolProgress): ToolProgress | null {
  if (!('text' in last && 'text' in next) || last.type === 'panel-end') return null
  const isSame =
    last.type === next.type &&
    ('model' in last ? 'model' in next && last.model === next.model : true)
  return isSame ? { ...last, text: last.text + next.text } : null
}

/**
 * Whether the client of a run is shown what its uses of tools do. Only the events of the Responses
 * API have a form for that (wire reference D.5, D.6).
 */
export const showsProgress = ({ call, within }: Run): boolean =>
  call.kind === 'text' && call.stream && call.dialect === 'responses' && within === null
