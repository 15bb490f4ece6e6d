import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { printNote, write } from '../output.ts'

/** `gateway man`: the manual, made of the same definitions as the help. */
export const createManCommand = () =>
  new Command('man')
    .description('print the manual page of a command, for man -l -; or write all pages')
    .argument('[command...]', 'its words, such as keys create')
    .option('--out <dir>', 'write every page into this directory, such as ~/.local/share/man/man1')
    .action(showManual)

async function showManual(
  words: string[],
  { out }: { out?: string },
  self: Command,
): Promise<void> {
  const { invalid, notFound } = await import('../../base/errors.ts')
  const { listPages } = await import('../manual.ts')
  const { nameFile, renderRoff } = await import('../manual/roff.ts')
  const program = self.parent as Command
  const pages = listPages(program)
  if (out === undefined) {
    const page = pages.find(one => one.words.join(' ') === words.join(' '))
    if (!page) throw notFound(`There is no command ${words.join(' ')}: gateway help shows them`)
    return write(renderRoff(page))
  }
  if (words.length > 0) throw invalid('--out: expected no command beside it: all are written')
  mkdirSync(out, { recursive: true, mode: 0o755 })
  for (const page of pages) writeFileSync(join(out, nameFile(page)), renderRoff(page))
  printNote(`Wrote ${pages.length} pages into ${out}`)
}
