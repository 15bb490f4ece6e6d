import type { Log } from '../../log.ts'

/**
 * Logs errors that no code has caught. A bug ends the call that met it, not the others. Only its
 * place in the code is logged, never the data of the call.
 */
export function logBugs(log: Log): void {
  const logBug = (thrown: unknown) => {
    const { name, stack } = thrown instanceof Error ? thrown : new Error()
    log('error', 'bug', {
      error: name,
      at: stack
        ?.split('\n')
        .find(line => line.trimStart().startsWith('at '))
        ?.trim(),
    })
  }
  process.on('unhandledRejection', logBug)
  process.on('uncaughtException', logBug)
}
