import { useState } from 'react'
import type { Action } from './keys.ts'
import { useShell } from './use-shell.ts'

/** The text by which a list is filtered: it filters as it is typed. */
export function useFilter() {
  const { ask } = useShell()
  const [filter, setFilter] = useState('')
  return {
    filter,
    /** Edits or clears the filter, and returns whether the action was about that. */
    handle(action: Action): boolean {
      if (action === 'filter') {
        void ask('Filter', filter, setFilter).then(text => {
          if (text === null) setFilter('')
        })
        return true
      }
      if (action !== 'back' || filter === '') return false
      setFilter('')
      return true
    },
  }
}
