import { findRows, findWarning, Left, type Row } from './actions/asking.ts'
import { ACTIONS, NOUN_ACTIONS, type NounAction, needsRow } from './actions/table.ts'
import type { Action } from './keys.ts'
import type { Noun, Source } from './source.ts'
import { useShell } from './use-shell.ts'

const isNounAction = (action: Action): action is Action & NounAction =>
  (ACTIONS as readonly string[]).includes(action)

/** What a list does once something was changed. */
interface Listed {
  reload(): Promise<void>
  /** Shows a text that is not shown again. */
  reveal?(text: string): void
}

/**
 * Changes what a noun lists: asks, confirms, changes and reads again. Returns a function that tells
 * whether an action was about that. What a noun does not know is said in a sentence.
 */
export function useActions(source: Source, noun: Noun, { reload, reveal }: Listed) {
  const { ask, attempt, confirm, notify } = useShell()
  const demand = async (...question: Parameters<typeof ask>) => {
    const answer = await ask(...question)
    if (answer === null) throw new Left()
    return answer.trim()
  }
  const asking = {
    ask: (question: string, initial?: string) => demand(question, initial),
    async askName(question: string, initial?: string) {
      const name = await demand(question, initial)
      if (name === '') throw new Error('Expected a name')
      return name
    },
    askSecret: (question: string) => demand(question, '', undefined, true),
    find: (text: string, ...nouns: Noun[]) => findRows(source, text, nouns),
  }
  const perform = async (action: NounAction, row: Row) => {
    const prepare = NOUN_ACTIONS[noun][action]
    if (typeof prepare === 'string') return notify(prepare)
    const { question, changes, done } = await prepare(row, asking)
    if (!(await confirm(question))) return
    try {
      for (const change of changes) {
        const shown = await source.change(change)
        if (shown !== null) reveal?.(shown)
      }
    } finally {
      await reload()
    }
    const warning = await findWarning(source, changes)
    notify(warning ?? done, warning === undefined ? 'good' : 'warn')
  }
  return (action: Action, row: object | undefined): boolean => {
    if (!isNounAction(action)) return false
    if (row || !needsRow(action))
      attempt(() => perform(action, (row ?? {}) as Row).catch(ignoreLeft))
    return true
  }
}

function ignoreLeft(thrown: unknown): void {
  if (!(thrown instanceof Left)) throw thrown
}
