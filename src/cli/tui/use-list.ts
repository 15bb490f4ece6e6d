import { useState } from 'react'
import type { Action } from './keys.ts'

/** Where somebody is in a list. */
interface Position {
  selected: number
  top: number
}

/** Moves in a list of so many rows, of which so many are on the screen. */
function move(
  { selected }: Position,
  action: Action,
  count: number,
  height: number,
): number | null {
  const page = Math.max(1, height - 1)
  const moved: Partial<Record<Action, number>> = {
    ...{ up: selected - 1, down: selected + 1, top: 0, bottom: count - 1 },
    ...{ pageUp: selected - page, pageDown: selected + page },
  }
  const wanted = moved[action]
  return wanted === undefined ? null : Math.max(0, Math.min(count - 1, wanted))
}

/** Scrolls as little as shows the selected row, and never past the end. */
export function scroll({ selected, top }: Position, count: number, height: number): Position {
  const last = Math.max(0, count - 1)
  const shown = Math.max(0, Math.min(selected, last))
  const highest = Math.max(0, count - height)
  const wanted = shown < top ? shown : shown >= top + height ? shown - height + 1 : top
  return { selected: shown, top: Math.max(0, Math.min(wanted, highest)) }
}

/**
 * The place in a list: which rows are shown, and what moves it. With names of its rows the place
 * stays at a row that moves, unless it is the first: that is whatever comes first.
 */
export function useList(count: number, height: number, names?: string[]) {
  const [position, setPosition] = useState<Position & { name?: string | undefined }>({
    selected: 0,
    top: 0,
  })
  const named = position.name === undefined ? -1 : (names?.indexOf(position.name) ?? -1)
  const followed =
    named === -1
      ? position
      : { selected: named, top: position.top + Math.max(0, named - position.selected) }
  const { selected, top } = scroll(followed, count, height)
  return {
    selected,
    top,
    bottom: Math.min(count, top + height),
    /** Moves, and returns whether the action was about that. */
    handle(action: Action): boolean {
      if (move({ selected, top }, action, count, height) === null) return false
      setPosition(before => {
        // Several keys may come before the next drawing.
        const now = before === position ? { selected, top } : before
        const moved = move(now, action, count, height) ?? now.selected
        const name = moved === 0 ? undefined : names?.[moved]
        return { ...scroll({ ...now, selected: moved }, count, height), name }
      })
      return true
    },
  }
}
