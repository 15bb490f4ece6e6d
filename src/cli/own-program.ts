import { join } from 'node:path'

/** Returns the command of this program: the executable, or its source under Bun. */
export function findProgram(): string[] {
  const isCompiled = Bun.main.startsWith('/$bunfs/') || Bun.main.startsWith('B:\\~BUN\\')
  return isCompiled
    ? [process.execPath]
    : [process.execPath, 'run', join(import.meta.dir, 'start.ts')]
}
