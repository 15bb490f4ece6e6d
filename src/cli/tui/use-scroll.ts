import { useState } from 'react'
import type { Action } from './keys.ts'

/** Scrolls a text of so many lines. */
export function useScroll(count: number, height: number) {
  const [wanted, setWanted] = useState(0)
  const most = Math.max(0, count - height)
  const top = Math.min(wanted, most)
  const page = Math.max(1, height - 1)
  const steps: Partial<Record<Action, (top: number) => number>> = {
    up: at => at - 1,
    down: at => at + 1,
    pageUp: at => at - page,
    pageDown: at => at + page,
    top: () => 0,
    bottom: () => most,
  }
  return {
    top,
    /** Scrolls, and returns whether the action was about that. */
    handle(action: Action): boolean {
      const step = steps[action]
      if (!step) return false
      setWanted(before => Math.max(0, Math.min(most, step(Math.min(before, most)))))
      return true
    },
  }
}
