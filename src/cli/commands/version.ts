import { Command } from 'commander'
import { VERSION } from '../../base/version.ts'
import { addShapeOptions } from '../options.ts'
import { print, printResult, type Shape } from '../output.ts'

/** `gateway version`: the version of this program, and with `--json` what it runs on. */
export const createVersionCommand = () =>
  addShapeOptions(
    new Command('version').description('print the version of this program'),
    'print also what it runs on, as JSON',
  ).action((shape: Shape) =>
    printResult(
      shape,
      { version: VERSION, bun: Bun.version, platform: process.platform, arch: process.arch },
      ({ version }) => print(version),
    ),
  )
