// Stands for the harness of postgres.js' own tests (tests/test.js), which ends with the first failure: this one goes on,
// and writes a report in JUnit's form.
import { inspect } from 'node:util'
import { writeFileSync } from 'node:fs'

import postgres from '../src/index.js'

const SECONDS_MAX = 5
const results = []
let declared = 0
let queue = Promise.resolve()

function within (seconds, run) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${seconds} s`)), seconds * 1000)
  })
  return Promise.race([late, Promise.resolve().then(run)]).finally(() => clearTimeout(timer))
}

async function one (name, seconds, run) {
  try {
    const [expected, got] = await Promise.all(await within(seconds, run))
    results.push({ name, error: expected === got ? null : `${inspect(expected)} != ${inspect(got)}` })
  } catch (error) {
    results.push({ name, error: inspect(error) })
  }
  if (results.at(-1).error !== null) await dropLeftTables()
  if (results.length === declared) write()
}

// A test that fails leaves its table, and all tests use the same names.
async function dropLeftTables () {
  const sql = postgres({ max: 1, onnotice: () => {}, connection: { lock_timeout: 5000 } })
  try {
    await sql`drop table if exists test, tester`
  } catch (error) {
    process.stderr.write(`tables are left: ${inspect(error)}\n`)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

export function t (name, options, run) {
  declared++
  const settings = typeof options === 'object' ? options : {}
  const body = typeof options === 'object' ? run : options
  queue = queue.then(() => one(name, (settings.timeout || SECONDS_MAX) * 2, body))
}

export const ot = t
export const nt = () => {}

function escaped (text) {
  const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  // eslint-disable-next-line no-control-regex
  return text.replace(/[&<>"]/g, (found) => entities[found]).replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, '?')
}

function write () {
  const cases = results.map(({ name, error }) => {
    const begun = `<testcase classname="postgres.js" name="${escaped(name)}"`
    return error === null ? `${begun}/>` : `${begun}><failure>${escaped(error)}</failure></testcase>`
  })
  writeFileSync(process.env.SUITE_REPORT, `<testsuite>\n${cases.join('\n')}\n</testsuite>\n`)
  process.exit(0)
}

process.on('uncaughtException', (error) => process.stderr.write(`uncaught: ${inspect(error)}\n`))
process.on('unhandledRejection', (error) => process.stderr.write(`unhandled: ${inspect(error)}\n`))
