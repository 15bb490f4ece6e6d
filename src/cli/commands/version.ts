import { Command } from 'commander'
import { VERSION } from '../../core/kernel/version.ts'
import { print, printResult } from '../output.ts'

/** `gateway version`: the version of this program, and with `--json` what it runs on. */
export const createVersionCommand = () =>
  new Command('version')
    .description('print the version of this program')
    .option('--json', 'print also what it runs on, as JSON')
    .action(({ json }: { json?: boolean }) =>
      printResult(
        json,
        { version: VERSION, bun: Bun.version, platform: process.platform, arch: process.arch },
        ({ version }) => print(version),
      ),
    )
