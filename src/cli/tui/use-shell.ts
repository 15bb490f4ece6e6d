import { type Key, useInput } from 'ink'
import { createContext, useContext, useEffect } from 'react'
import { type Action, findAction } from './keys.ts'
import type { LiveAlarm } from './live.ts'

/** What a view may ask of the screen around it. */
export interface Shell {
  /** Whether keys are for the view: no question and no help is open. */
  isFree: boolean
  /** Asks for a text on the last line, which hides a secret. Null: the question was left. */
  ask(
    question: string,
    initial?: string,
    onChange?: (text: string) => void,
    isSecret?: boolean,
  ): Promise<string | null>
  /** Asks for yes or no. */
  confirm(question: string): Promise<boolean>
  /** Shows a sentence on the last line, until the next key. */
  notify(text: string, kind?: LiveAlarm['kind']): void
  /** Replaces the hint on the last line; null: that of the view. */
  hint(text: string | null): void
  /** Runs what may fail, and shows why it did. */
  attempt(work: () => Promise<void>): void
}

export const ShellContext = createContext<Shell | null>(null)

/** Returns the screen around a view. */
export function useShell(): Shell {
  const shell = useContext(ShellContext)
  if (!shell) throw new Error('A view is on no screen')
  return shell
}

/** Shows a hint on the last line as long as something is open. */
export function useHint(text: string | null): void {
  const { hint } = useShell()
  useEffect(() => {
    hint(text)
    return () => hint(null)
  }, [hint, text])
}

/**
 * Calls the view with each key that does something, while keys are for it. Of keys that come at
 * once, those after one that leaves the view are not.
 */
export function useAction(handle: (action: Action, input: string) => void): void {
  const { isFree } = useShell()
  const handleInput = (input: string, key: Key) => {
    let isLeft = false
    dispatch(input, key, (action, letter) => {
      isLeft ||= LEAVING.has(action)
      if (!isLeft) handle(action, letter)
    })
  }
  useInput(handleInput, { isActive: isFree })
}

/** What leaves a view, or covers it. */
const LEAVING = new Set<Action>(['view', 'next', 'previous', 'help', 'quit'])

/** How many keys that come at once are keys. More is a text that was pasted. */
const MOST_KEYS = 8

/** Splits what came at once into keys. A pasted text is none. */
export function dispatch(
  input: string,
  key: Key,
  handle: (action: Action, input: string) => void,
): void {
  const inputs = input.length > 1 ? [...input] : [input]
  if (inputs.length > MOST_KEYS) return
  for (const one of inputs) {
    const action = findAction(one, key)
    if (action) handle(action, one)
  }
}
