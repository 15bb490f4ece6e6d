import { VERSION } from '../core/kernel/version.ts'

/**
 * The program. What is asked most often by scripts, and what the benchmark starts beside itself, is
 * answered before the commands are loaded.
 */
const [, , word, name, ...rest] = process.argv
if (word === '--version' && name === undefined) process.stdout.write(`${VERSION}\n`)
else if (word === 'bench-part' && rest.length === 0) {
  const { runPart } = await import('./bench/parts.ts')
  await runPart(name)
} else {
  const { start } = await import('./main.ts')
  await start()
}
