/** @jsxImportSource preact */
import { useRef, useState } from 'preact/hooks'
import { ask, call, type OwnSession, readEvents, type Who } from './api.ts'
import { Explanation } from './calls.tsx'
import { Copyable, Problem, useLoaded } from './parts.tsx'
import { link, type Place, setQuery } from './route.ts'
import { formatCount, formatMilliseconds, formatUsd } from './text.ts'

/** The key of this page's calls: it is nowhere but here, and gone with the page. */
let ownKey = ''

/** What a key of the playground may spend and how long it lives, in USD and milliseconds. */
const LIMIT = 1
const LIFETIME = 3_600_000

interface Said {
  role: 'user' | 'assistant'
  content: string
  picture?: string | undefined
}

/** What an answer came to. */
interface Receipt {
  id: string
  cost: number | null
  tokens: number | null
  time: number
}

/** Calls a model, with text and pictures, and shows what it costs and how a program does the same. */
export function Playground({
  place,
  who,
  session,
}: {
  place: Place
  who: Who
  session: OwnSession
}) {
  const [explained, setExplained] = useState<object | null>(null)
  const model = place.query.get('model') ?? who.default_model
  const [key, setKey] = useState(ownKey)
  const [said, setSaid] = useState<Said[]>([])
  const [text, setText] = useState('')
  const [picture, setPicture] = useState<string>()
  const [answer, setAnswer] = useState<string | null>(null)
  const [receipt, setReceipt] = useState<Receipt | null>(null)
  const [error, setError] = useState<Error | null>(null)
  const stop = useRef<AbortController | null>(null)
  const models = useLoaded(() => ask<{ data: { id: string }[] }>('GET', '/models'), [])

  const useKey = (given: string) => {
    ownKey = given
    setKey(given)
  }
  const makeKey = async () => {
    const expires_at = new Date(Date.now() + LIFETIME).toISOString()
    const made = await ask<{ key: string }>('POST', '/keys', {
      ...{ name: 'Console playground', limit: LIMIT, expires_at },
    })
    useKey(made.key)
  }
  const send = async () => {
    const asked: Said[] = [...said, { role: 'user', content: text, picture }]
    setSaid(asked)
    setText('')
    setPicture(undefined)
    setError(null)
    setReceipt(null)
    setAnswer('')
    const controller = new AbortController()
    stop.current = controller
    const begun = performance.now()
    let whole = ''
    try {
      const response = await call(key, buildBody(model, asked), controller.signal)
      const id = response.headers.get('x-generation-id') ?? ''
      let usage: { cost?: number; total_tokens?: number } = {}
      for await (const events of readEvents(response)) {
        for (const event of events) {
          if (event === '[DONE]') continue
          const chunk = JSON.parse(event)
          if (chunk.error) throw new Error(chunk.error.message)
          whole += chunk.choices?.[0]?.delta?.content ?? ''
          usage = chunk.usage ?? usage
        }
        setAnswer(whole)
      }
      setReceipt({
        id,
        cost: usage.cost ?? null,
        tokens: usage.total_tokens ?? null,
        time: performance.now() - begun,
      })
    } catch (thrown) {
      if (!controller.signal.aborted) setError(thrown as Error)
    }
    if (whole !== '') setSaid([...asked, { role: 'assistant', content: whole }])
    setAnswer(null)
    stop.current = null
  }

  return (
    <>
      <h1>Playground</h1>
      <div class="tools">
        <label>
          Model{' '}
          <input
            list="models"
            value={model}
            onChange={event => setQuery(place, { model: event.currentTarget.value })}
          />
        </label>
        <datalist id="models">
          {models.value?.data.map(({ id }) => (
            <option key={id} value={id} />
          ))}
        </datalist>
      </div>
      {key === '' ? (
        <section class="notice">
          <p>Calls are made and paid for with a key. It stays in this page only.</p>
          <div class="actions">
            <button type="button" class="primary" onClick={() => makeKey().catch(setError)}>
              Make a key for an hour, up to {formatUsd(LIMIT)}
            </button>
            <label>
              or use one of yours{' '}
              <input
                type="password"
                autocomplete="off"
                onChange={event => useKey(event.currentTarget.value.trim())}
              />
            </label>
          </div>
          <Problem error={error} />
        </section>
      ) : (
        <>
          <div class="talk" aria-live="polite">
            {[
              ...said,
              ...(answer === null ? [] : [{ role: 'assistant' as const, content: answer || '…' }]),
            ].map((one, i) => (
              <div key={i} class={one.role}>
                <span class="quiet">{one.role === 'user' ? 'You' : model}</span>
                {'picture' in one && one.picture ? (
                  <img src={one.picture} alt="What you sent" />
                ) : null}
                <p>{one.content}</p>
              </div>
            ))}
          </div>
          {receipt ? (
            <p class="quiet" role="status">
              {formatUsd(receipt.cost)}, {formatCount(receipt.tokens)} tokens,{' '}
              {formatMilliseconds(receipt.time)},{' '}
              <a href={link(['calls', receipt.id])}>see the call</a>
            </p>
          ) : null}
          <Problem error={error} />
          <form
            onSubmit={event => {
              event.preventDefault()
              if (stop.current) stop.current.abort()
              else void send()
            }}
          >
            <div class="field">
              <label for="say">Message</label>
              <textarea
                id="say"
                rows={3}
                value={text}
                onInput={event => setText(event.currentTarget.value)}
              />
            </div>
            <div class="actions">
              <button
                type="submit"
                class="primary"
                disabled={answer === null && text.trim() === ''}
              >
                {answer === null ? 'Send' : 'Stop'}
              </button>
              <label class="button">
                {picture ? 'Picture added' : 'Add a picture'}
                <input
                  type="file"
                  class="hidden"
                  accept="image/*"
                  onChange={event => {
                    const [file] = event.currentTarget.files ?? []
                    if (file) readPicture(file).then(setPicture, setError)
                  }}
                />
              </label>
              {session.role === 'manager' ? (
                <button
                  type="button"
                  disabled={text.trim() === ''}
                  onClick={() =>
                    setExplained(
                      buildBody(model, [...said, { role: 'user', content: text, picture }]),
                    )
                  }
                >
                  Explain
                </button>
              ) : null}
              <button type="button" onClick={() => setSaid([])}>
                Begin again
              </button>
            </div>
          </form>
          {explained ? <Explanation body={explained} /> : null}
          <ShowAs model={model} said={said} />
        </>
      )}
    </>
  )
}

const readPicture = (file: File): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(new Error('The picture cannot be read'))
    reader.readAsDataURL(file)
  })

const buildBody = (model: string, said: Said[]) => ({
  model,
  stream: true,
  usage: { include: true },
  messages: said.map(({ role, content, picture }) => ({
    role,
    content: picture
      ? [
          { type: 'text', text: content },
          { type: 'image_url', image_url: { url: picture } },
        ]
      : content,
  })),
})

/** The same call, as a program makes it. */
function ShowAs({ model, said }: { model: string; said: Said[] }) {
  const last = said.findLast(({ role }) => role === 'user')?.content ?? 'Hello'
  const base = `${location.origin}/api/v1`
  const [model_, content] = [JSON.stringify(model), JSON.stringify(last)]
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: last }] })
  return (
    <details>
      <summary>Show as code</summary>
      <Copyable
        label="curl"
        text={`curl ${base}/chat/completions \\
  -H "Authorization: Bearer $KEY" \\
  -d '${body.replaceAll("'", `'\\''`)}'`}
      />
      <Copyable
        label="TypeScript"
        text={`import OpenAI from 'openai'
const client = new OpenAI({ baseURL: '${base}', apiKey: process.env.KEY })
const answer = await client.chat.completions.create({
  model: ${model_},
  messages: [{ role: 'user', content: ${content} }],
})
console.log(answer.choices[0].message.content)`}
      />
      <Copyable
        label="Python"
        text={`import os
from openai import OpenAI
client = OpenAI(base_url="${base}", api_key=os.environ["KEY"])
answer = client.chat.completions.create(
    model=${model_},
    messages=[{"role": "user", "content": ${content}}],
)
print(answer.choices[0].message.content)`}
      />
    </details>
  )
}
