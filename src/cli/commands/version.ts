import { Command } from 'commander'
import { describeProgram } from '../../base/version.ts'
import { addShapeOptions } from '../options.ts'
import { print, printResult, type Shape } from '../output.ts'

/** `gateway version`: the version of this program, and with `--json` its commit and what it runs on. */
export const createVersionCommand = () =>
  addShapeOptions(
    new Command('version').description('print the version of this program'),
    'print also its commit and date, and what it runs on, as JSON',
  ).action((shape: Shape) => printResult(shape, describeProgram(), ({ version }) => print(version)))
