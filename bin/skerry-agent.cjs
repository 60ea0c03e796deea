#!/usr/bin/env -S node --max-semi-space-size=1
'use strict';
require('./node-version.cjs').demand('skerry-agent');
import('../agent/src/main.ts');
