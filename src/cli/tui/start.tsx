import { type Instance, render } from 'ink'
import { App } from './app.tsx'
import type { Source } from './source.ts'

/** How often the screen is written at most, in a second. */
const MOST_FRAMES = 10

/** Empties the screen. */
const CLEAR = '\u001b[2J\u001b[H'

/** What a terminal needs to be as it was: the first screen, and a cursor. */
const RESTORE = '\u001b[?1049l\u001b[?25h'

/**
 * Shows the terminal UI until it is left, and leaves the terminal as it was: also when the process
 * is told to end, or fails. Rejects with what made it fail.
 */
export async function startTui(source: Source): Promise<void> {
  let instance: Instance | undefined
  // Some terminals keep lines of a screen that was resized, unless it is empty.
  const leave = () => {
    process.stdout.write(CLEAR)
    instance?.unmount()
  }
  const crash = (thrown: unknown) => {
    instance?.unmount()
    process.stdout.write(RESTORE)
    process.stdin.setRawMode?.(false)
    process.stderr.write(`gateway: ${thrown instanceof Error ? thrown.message : String(thrown)}\n`)
    process.exit(1)
  }
  const signals = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const
  // Before Ink adds its own: it leaves the screen as well.
  for (const signal of signals) process.on(signal, leave)
  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
  try {
    instance = render(<App source={source} onLeave={leave} />, {
      alternateScreen: true,
      incrementalRendering: true,
      exitOnCtrlC: false,
      maxFps: MOST_FRAMES,
    })
    await instance.waitUntilExit()
  } finally {
    for (const signal of signals) process.off(signal, leave)
    process.off('uncaughtException', crash)
    process.off('unhandledRejection', crash)
  }
}
