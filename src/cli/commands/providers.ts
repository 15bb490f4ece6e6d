import { Option } from 'commander'
import { invalid } from '../../core/errors.ts'
import { CUT, type Fields } from '../fields.ts'
import { defineNoun, defineVerbs } from '../noun.ts'
import { parseNumber } from '../options.ts'

const verb = defineVerbs(() => import('../../core/catalog/providers.ts'), {
  needs: { data: false },
})
const checkVerb = defineVerbs(() => import('../../core/tools/provider-check.ts'), {
  needs: { data: false, secrets: true },
})

const TIMEOUT: Fields = {
  options: [
    new Option('--timeout <seconds>', 'how long each check may take')
      .argParser(parseNumber)
      .default(10),
  ],
  read: ({ timeout }: { timeout: number }) => checkTimeout(timeout),
}

/** `gateway providers`: known providers, and which are configured. */
export const createProvidersCommand = () =>
  defineNoun('providers', 'providers of models', [
    verb('list', 'list the providers', [CUT], core => core.listProviders).printAs(
      ({ data }, { gateway: { catalog }, printList }) =>
        printList(
          ['PROVIDER', 'NAME', 'PROTOCOL', 'STATE'],
          data.flatMap(({ slug: listed }) => {
            const provider = catalog.providers.get(listed)
            return provider
              ? [
                  [
                    listed,
                    provider.name,
                    provider.protocol,
                    provider.configured ? 'configured' : '-',
                  ],
                ]
              : []
          }),
        ),
    ),
    checkVerb(
      'check [provider...]',
      'check the configured providers and search engines with requests that cost nothing',
      [TIMEOUT],
      (core, { timeout }: { timeout: number }) =>
        async (gateway, _, providers) => {
          const { data } = await core.checkAll(gateway, providers, timeout * 1000)
          if (data.some(({ ok }) => ok === false)) process.exitCode = 1
          return { data }
        },
    ).printAs({
      PROVIDER: ({ provider }) => provider,
      STATE: ({ ok }) => (ok === null ? '?' : ok ? 'ok' : 'WRONG'),
      STATUS: ({ status }) => status,
      MS: ({ milliseconds }) => milliseconds,
      FOUND: ({ error }) => error,
    }),
  ])

const LONGEST_SECONDS = 600

function checkTimeout(seconds: number): Record<string, never> {
  if (seconds <= 0 || seconds > LONGEST_SECONDS)
    throw invalid(`timeout: expected a number of seconds above 0, to ${LONGEST_SECONDS}`)
  return {}
}
