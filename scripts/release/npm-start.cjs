#!/usr/bin/env node
'use strict'
// Starts the program that npm installed for this system, from one of the optional packages.
const { spawn } = require('node:child_process')
const { constants } = require('node:os')
const { name } = require('../package.json')

const system = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

/** Finds the program in a package; undefined if npm has not installed that. */
function findProgram(suffix) {
  try {
    return require.resolve(
      `${name}-${system}${suffix}/gateway${process.platform === 'win32' ? '.exe' : ''}`,
    )
  } catch {
    return undefined
  }
}

// Some package managers install both.
const [glibc, musl] = [findProgram(''), findProgram('-musl')]
const isGlibc = () => process.report.getReport().header.glibcVersionRuntime !== undefined
const program = glibc && musl ? (isGlibc() ? glibc : musl) : (glibc ?? musl)
if (program === undefined) {
  process.stderr.write(
    `gateway: ${name}-${system} is not installed: there is none for this system, or npm left optional packages out\n`,
  )
  process.exit(1)
}

// Before the program starts, as a signal may come at once.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    // A terminal has told both.
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
  })
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' })
child.on('error', ({ message }) => {
  process.stderr.write(`gateway: ${message}\n`)
  process.exitCode = 1
})
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
