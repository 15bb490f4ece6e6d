import type { Events } from '../base/events.ts'

declare module '../base/events.ts' {
  interface EventMap {
    /** A reader keeps the store's log from being used again, so that it grows. */
    'write-log.held': WriteLogState
    /** The log is short again. */
    'write-log.released': WriteLogState
  }
}

/** The log that a store writes ahead of its file. */
interface WriteLogState {
  bytes: number
  /** Whether it is too long, and somebody who reads or writes keeps it from being shortened. */
  isHeld: boolean
}

/** Shortens the log of a store, and keeps room for what makes room. */
export interface WriteLogStore {
  /**
   * Sets room aside that was taken, and copies a log that is too long into the store's file and empties it, unless another process
   * keeps that from being done. Waits for it for a moment. Returns how the log is then.
   */
  shorten(): Promise<WriteLogState>
}

/** Keeps the log of a store short. */
export interface WriteLog {
  /** How it was found last. */
  readonly state: WriteLogState
  /** Looks at the log, shortens it if it is too long, and tells when it is held and no longer. */
  keepShort(): Promise<void>
}

/** Opens the keeper of a store's log. */
export function openWriteLog(store: WriteLogStore, events: Events): WriteLog {
  let state: WriteLogState = { bytes: 0, isHeld: false }
  return {
    get state() {
      return state
    },
    async keepShort() {
      const wasHeld = state.isHeld
      state = await store.shorten()
      if (state.isHeld && !wasHeld) events.publish('write-log.held', state)
      if (!state.isHeld && wasHeld) events.publish('write-log.released', state)
    },
  }
}
