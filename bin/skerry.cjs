#!/usr/bin/env node
'use strict';
require('./node-version.cjs').demand('skerry');
import('../src/main.ts');
